"""Every knob of every role, as data: flags, `--help`, `gpusight settings` and docs/settings.md are made from it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Literal

Type = Literal["str", "int", "float", "bool", "duration", "path", "url", "address", "choice"]

_PHRASES: Mapping[Type, str] = {
    "str": "text",
    "int": "an integer",
    "float": "a number",
    "bool": "true or false",
    "duration": "a duration (300, 30s, 5m, 1h)",
    "path": "a path",
    "url": "an address that starts with http:// or https://",
    "address": "a listen address such as :9090, 127.0.0.1:9090 or [::1]:9090",
    "choice": "one of",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One knob. Its default is written the way a user would write it, and goes through the same check.

    `env` are further environment names after `GPUSIGHT_<NAME>`; no `roles` means every role. A default that differs
    from role to role stands in the role table instead.
    """

    name: str
    type: Type
    help: str
    _: KW_ONLY
    env: tuple[str, ...] = ()
    default: str | None = None
    bounds: tuple[float, float] | None = None
    choices: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    required: bool = False
    secret: bool = False
    repeatable: bool = False
    implied: str = ""
    """The value of a flag that is given without one."""
    since: str = "0.1.0"
    changeable: bool = False
    """Whether it may be changed while the role runs."""

    @property
    def flag(self) -> str:
        return f"--{self.name}"

    @property
    def env_names(self) -> tuple[str, ...]:
        own = re.sub("[.-]", "_", self.name).upper()
        return (f"GPUSIGHT_{own}", *self.env)

    @property
    def expects(self) -> str:
        """What a value must be, as the end of the sentence `... is not`."""
        if self.bounds is None:
            return " ".join((_PHRASES[self.type], ", ".join(self.choices))).rstrip()
        low, high = (f"{bound:g}{'s' if self.type == 'duration' else ''}" for bound in self.bounds)
        return f"{_PHRASES[self.type]} between {low} and {high}"

    def applies_to(self, roles: Sequence[str]) -> bool:
        return not self.roles or not set(self.roles).isdisjoint(roles)


_node = partial(Setting, roles=("node",))
_analyze = partial(Setting, roles=("analyze",))
_live = partial(_analyze, changeable=True)
_weight = partial(_live, type="float", bounds=(0, 1))

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "web.listen-address",
        "address",
        "Address to listen on, host:port; no host means all interfaces, port 0 any free port. May be repeated.",
        repeatable=True,
    ),
    Setting(
        "web.config.file",
        "path",
        "Web configuration file with TLS and basic authentication, in the format that Prometheus exporters share.",
    ),
    Setting(
        "web.max-requests",
        "int",
        "Different pages that are made at the same time; further scrapes are refused.",
        default="40",
        bounds=(1, 10_000),
    ),
    Setting(
        "web.openmetrics",
        "bool",
        "Offer OpenMetrics too, which has to append `_total` to the names of counters that lack it.",
    ),
    Setting("config.file", "path", "YAML file with settings; its keys are setting names, nested or dotted."),
    Setting("data.dir", "path", "Directory for what a role keeps from one run to the next."),
    Setting(
        "log.level",
        "choice",
        "Least important messages to log.",
        env=("LOG_LEVEL",),
        default="info",
        choices=("debug", "info", "warning", "error"),
    ),
    Setting(
        "log.format",
        "choice",
        "Form of a log line: key=value pairs, JSON, or `time - name - LEVEL - message`.",
        default="logfmt",
        choices=("logfmt", "json", "seed"),
    ),
    Setting(
        "ops.dir",
        "path",
        "Directory where the worker processes of the measured program keep their metric files.",
        roles=("ops",),
        required=True,
    ),
    _node("node.name", "str", "Name of this node; by default the machine's host name.", env=("NODE_NAME",)),
    _node("cluster.name", "str", "Name of the cluster that this node belongs to."),
    Setting(
        "simulate",
        "str",
        "Simulated GPUs instead of real ones: a built-in fleet, `generated:GPUS`, or a YAML file.",
        implied="default",
        roles=("node", "analyze"),
    ),
    _analyze("simulate.agent", "url", "Agent that serves all nodes of the simulated fleet: each is scraped."),
    Setting(
        "simulate.speed",
        "float",
        "How many seconds pass in the simulated world in one of ours.",
        default="1",
        bounds=(0.1, 3600),
        roles=("up",),
    ),
    _node(
        "simulate.control",
        "path",
        "File with faults for the simulated GPUs; it is re-read when it changes.",
    ),
    Setting(
        "simulate.clock",
        "str",
        "Clock of the simulated world, `speed,wall,start`: processes that are given the same one agree.",
        roles=("node", "analyze"),
    ),
    _node(
        "hami.dialect",
        "choice",
        "Generation of HAMi's metric names; may be repeated, as long as no two give one name different labels.",
        default="seed,v2.10",
        choices=("seed", "v2.8", "v2.9", "v2.10"),
        repeatable=True,
    ),
    _node(
        "hami.value-labels",
        "bool",
        "Fill the labels of HAMi's that hold measured sizes: each change starts a new series.",
        default="true",
    ),
    _node(
        "collect.sets",
        "choice",
        "Sets of metrics to expose; may be repeated.",
        default="hami,dcgm,gpu,containers,health",
        choices=("hami", "dcgm", "gpu", "containers", "processes", "health"),
        repeatable=True,
    ),
    _node(
        "collect.interval",
        "duration",
        "Longest time between two readings of the GPUs when nobody scrapes.",
        default="15s",
        bounds=(1, 3600),
    ),
    _node(
        "collect.max-age",
        "duration",
        "Age up to which a reading serves further scrapes, too.",
        default="1s",
        bounds=(0.1, 60),
    ),
    _node(
        "nvml.timeout",
        "duration",
        "Time a reading waits for a GPU that does not answer.",
        default="400ms",
        bounds=(0.05, 60),
    ),
    _node(
        "vgpu.dir",
        "path",
        "Directory with one sub-directory per container that libvgpu serves.",
        default="/usr/local/vgpu/containers",
    ),
    _node("path.procfs", "path", "Where the host's /proc is mounted.", default="/proc"),
    _node("path.pod-logs", "path", "Where the kubelet keeps the pods' logs: their names.", default="/var/log/pods"),
    _node(
        "kubelet.socket",
        "path",
        "The kubelet's pod-resources socket.",
        default="/var/lib/kubelet/pod-resources/kubelet.sock",
    ),
    _node(
        "k8s.watch-pods",
        "bool",
        "Watch this node's pods at the Kubernetes API: more names and MIG annotations, at the API server's cost.",
        default="false",
    ),
    # The names and defaults below are those of the GPU utilization monitor that the role analyze succeeds.
    _analyze(
        "prom.url", "url", "Prometheus-compatible server to ask.", env=("PROM_URL",), default="http://prometheus:9090"
    ),
    _live(
        "threshold",
        "int",
        "Score in percent below which a GPU counts as little used.",
        env=("THRESHOLD",),
        default="20",
        bounds=(0, 100),
    ),
    _live(
        "interval",
        "duration",
        "Time between two rounds of analysis.",
        env=("INTERVAL",),
        default="300s",
        bounds=(1, 86_400),
    ),
    _live(
        "max-workers", "int", "Queries that run at the same time.", env=("MAX_WORKERS",), default="8", bounds=(1, 256)
    ),
    _live(
        "time-window-min",
        "int",
        "Minutes that one round looks back.",
        env=("TIME_WINDOW_MIN",),
        default="10",
        bounds=(1, 10_080),
    ),
    _live(
        "step", "duration", "Distance between two samples of a query.", env=("STEP",), default="30s", bounds=(1, 3600)
    ),
    _live(
        "query-condition",
        "str",
        "Label condition that selects the GPUs to judge, for every query.",
        env=("QUERY_CONDITION",),
        default='{pod!=""}',
    ),
    _weight("gpu-util-weight", help="Core utilization in the score.", env=("GPU_UTIL_WEIGHT",), default="0.5"),
    _weight("mem-copy-weight", help="Memory bandwidth in the score.", env=("MEM_COPY_WEIGHT",), default="0.2"),
    _weight("mem-used-weight", help="Memory in use in the score.", env=("MEM_USED_WEIGHT",), default="0.2"),
    _weight("power-weight", help="Power draw in the score.", env=("POWER_WEIGHT",), default="0.1"),
    _live("ai.enabled", "bool", "Ask a language model, too.", env=("AI_ENABLED",), default="false"),
    _analyze("ai.api-url", "url", "Address of the model's API.", env=("AI_API_URL",)),
    _analyze("ai.api-key", "str", "Key for the model's API.", env=("AI_API_KEY",), secret=True),
    _analyze("ai.model", "str", "Name of the model.", env=("AI_MODEL",), default="gpt-4"),
    _analyze(
        "control.api-enabled",
        "bool",
        "Call the control API for GPUs that are little used.",
        env=("CONTROL_API_ENABLED",),
        default="false",
    ),
    _analyze("control.api", "url", "Address of the control API.", env=("CONTROL_API",)),
    # What the analyzer has beyond it: where samples come from,
    _analyze(
        "store",
        "choice",
        "Where samples come from: a Prometheus-compatible server, or scraped into a file of our own.",
        default="prometheus",
        choices=("prometheus", "embedded"),
    ),
    _analyze("prom.timeout", "duration", "Longest time a query may take.", default="10s", bounds=(0.1, 600)),
    _analyze("prom.bearer-token-file", "path", "File with a token for the server; it is re-read when it changes."),
    _analyze("prom.user", "str", "User name for the server."),
    _analyze("prom.password-file", "path", "File with the password for the server."),
    _analyze(
        "prom.header",
        "str",
        "Header for every query, `Name: value`, such as a tenant id. May be repeated.",
        repeatable=True,
        secret=True,
    ),
    _analyze("prom.ca-file", "path", "Certificates to trust instead of the system's."),
    _analyze("prom.cert-file", "path", "Client certificate for the server."),
    _analyze("prom.key-file", "path", "Key of the client certificate."),
    _analyze("prom.insecure", "bool", "Do not check the server's certificate.", default="false"),
    _analyze(
        "store.cluster-label", "str", "Label that names the cluster, where one server holds several.", default="cluster"
    ),
    _analyze(
        "store.scale",
        "str",
        "Unit of a family whose name leaves it open, `FAMILY=percent` or `FAMILY=ratio`. May be repeated.",
        repeatable=True,
    ),
    _analyze(
        "scrape.target",
        "url",
        "Page to scrape into the embedded store. May be repeated.",
        repeatable=True,
    ),
    _analyze("scrape.interval", "duration", "Time between two scrapes.", default="15s", bounds=(0.25, 3600)),
    _analyze("scrape.timeout", "duration", "Longest time a scrape may take.", default="10s", bounds=(0.1, 600)),
    _analyze(
        "store.raw-retention",
        "duration",
        "How long the embedded store keeps samples.",
        default="48h",
        bounds=(600, 31_536_000),
    ),
    _analyze(
        "store.rollup-retention",
        "duration",
        "How long the embedded store keeps five-minute summaries.",
        default="90d",
        bounds=(3600, 315_360_000),
    ),
    _analyze(
        "store.max-size",
        "int",
        "Size of the embedded store in MiB from which on the oldest samples go.",
        default="4096",
        bounds=(16, 10_485_760),
    ),
    # how it judges,
    _live(
        "idle-threshold", "float", "Score in percent below which a GPU counts as idle.", default="10", bounds=(0, 100)
    ),
    _live(
        "high-threshold", "float", "Score in percent above which a GPU is highly used.", default="70", bounds=(0, 100)
    ),
    _live(
        "active-above",
        "float",
        "Utilization in percent above which a sample is activity.",
        default="0.5",
        bounds=(0, 100),
    ),
    _live(
        "coverage",
        "float",
        "Share of the expected samples below which nothing is concluded.",
        default="0.8",
        bounds=(0.1, 1),
    ),
    _live(
        "stale-after",
        "duration",
        "Age of the newest sample from which on it says nothing of now.",
        default="150s",
        bounds=(1, 86_400),
    ),
    _live(
        "grace",
        "duration",
        "Age up to which an inactive workload is warming up.",
        default="30m",
        bounds=(0, 604_800),
    ),
    _live(
        "idle-rounds",
        "int",
        "Consecutive rounds without activity before a workload that was active counts as idle.",
        default="5",
        bounds=(1, 1000),
    ),
    _analyze("tenants.file", "path", "YAML file that says whose a namespace is and of which team."),
    _analyze("prices.file", "path", "YAML file with the price of a GPU-hour by model."),
    _analyze(
        "tenants.from-kubernetes",
        "bool",
        "Take owners from the `owner` annotation that Kubeflow gives each profile's namespace.",
        default="false",
    ),
    _analyze("tenants.team-label", "str", "Label of a namespace that names its team.", default="team"),
    Setting(
        "k8s.kubeconfig",
        "path",
        "kubeconfig file; without it $KUBECONFIG, the pod's service account, ~/.kube/config.",
        roles=("node", "analyze"),
    ),
    # what it keeps, and who may ask.
    _analyze(
        "database.url",
        "str",
        "Journal in PostgreSQL, postgres://...; without it a file in the data directory.",
        env=("DATABASE_URL",),
        secret=True,
    ),
    _analyze("auth.token-file", "path", "YAML file with the tokens that may read or change."),
    _analyze(
        "auth.read",
        "choice",
        "Who may read beyond metrics and health: everybody, or holders of a token.",
        default="open",
        choices=("open", "token"),
    ),
    _analyze(
        "trigger-interval",
        "duration",
        "Shortest time between two rounds that are asked for.",
        default="10s",
        bounds=(0, 3600),
    ),
    _analyze("up.status-file", "path", "File in which `gpusight up` tells the state of the roles beside this one."),
)
