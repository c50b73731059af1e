"""What the terminal view says, in English and Chinese."""

from collections.abc import Mapping
from typing import Literal, get_args

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

_WORDS: Mapping[str, tuple[str, str]] = {
    # sections
    "gpus": ("GPUs", "GPU"),
    "verdicts": ("Verdicts", "结论"),
    "sharing": ("Lock queue", "锁队列"),
    # columns
    "name": ("NAME", "名称"),
    "status": ("STATUS", "状态"),
    "state": ("STATE", "状态"),
    "util": ("UTIL", "利用率"),
    "memory": ("MEMORY", "显存"),
    "power": ("POWER", "功率"),
    "temp": ("TEMP", "温度"),
    "clock": ("MHZ", "MHZ"),
    "score": ("SCORE", "评分"),
    "gpu": ("GPU", "GPU"),
    "model": ("MODEL", "型号"),
    "for": ("FOR", "持续"),
    "idle": ("IDLE", "空闲"),
    "confidence": ("CONF", "可信度"),
    "held": ("GPUS", "GPU数"),
    "owner": ("OWNER", "负责人"),
    "running": ("RUN", "运行"),
    "queued": ("QUEUE", "排队"),
    "waiting": ("WAIT", "等待"),
    "quota": ("QUOTA", "配额"),
    "used": ("USED", "已用"),
    # how a GPU, a container, a process is right now
    "status.busy": ("busy", "忙碌"),
    "status.idle": ("idle", "空闲"),
    "status.mig": ("mig", "MIG"),
    "status.old": ("old", "过时"),
    "status.down": ("down", "失联"),
    "status.unknown": ("unknown", "未知"),
    # what the analyzer concludes
    "status.unallocated": ("unallocated", "未分配"),
    "status.warming": ("warming", "预热"),
    "status.idle-empty": ("idle-empty", "空置"),
    "status.idle-held": ("idle-held", "占而不用"),
    "status.bursty": ("bursty", "间歇"),
    "status.hollow-busy": ("hollow-busy", "虚忙"),
    "status.starved": ("starved", "饥饿"),
    "status.memory-bound": ("memory-bound", "受限显存"),
    "status.productive": ("productive", "有效"),
    # the share scheduler's clients
    "status.throttled": ("throttled", "限流"),
    "status.yielding": ("yielding", "让出中"),
    "status.overloaded": ("overloaded", "超载"),
    "status.client": ("client", "客户端"),
    "status.shared": ("shared", "共享"),
    # the head
    "simulated": ("SIMULATED", "模拟数据"),
    "paused": ("PAUSED", "已暂停"),
    "data age": ("data {age} old", "数据距今 {age}"),
    "data is old": ("OLD DATA: {age} old", "数据过时: 距今 {age}"),
    "age unknown": ("age of the data unknown", "数据时间未知"),
    "unreachable": ("UNREACHABLE for {age}: {reason}", "无法连接 {age}: {reason}"),
    "connecting": ("asking {source} ...", "正在连接 {source} ..."),
    "no rows": ("nothing to show", "无内容"),
    "no match": ("nothing matches the filter", "没有符合筛选的内容"),
    "sorted by": ("sort {column} {order}", "排序 {column} {order}"),
    "filtered by": ("filter {filter}: {shown} of {all}", "筛选 {filter}: {shown}/{all}"),
    "narrow": ("columns hidden: {count}, widen the terminal", "隐藏了 {count} 列: 请加宽终端"),
    "problems": ("problem 1 of {count}: {first}", "问题 1/{count}: {first}"),
    "capped": ("the first {shown} of {all} rows", "{all} 行中的前 {shown} 行"),
    "round": ("round {number}", "第 {number} 轮"),
    "average score": ("average score {score}", "平均评分 {score}"),
    "total gpus": ("{count} GPUs", "{count} 个 GPU"),
    "held by": ("known from {how}", "来源 {how}"),
    "slurm": ("Slurm job {job}", "Slurm 作业 {job}"),
    "keys": (
        "q quit  / filter  s sort  o order  t tree  v reasons  p pause  r now  ? help",
        "q 退出  / 筛选  s 排序  o 顺序  t 树  v 理由  p 暂停  r 刷新  ? 帮助",
    ),
    "filter prompt": ("filter: words that a row must have; Enter keeps, Esc clears", "筛选词; 回车保留, Esc 清除"),
}

_HELP: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "keys": (
        ("up down PgUp PgDn Home End", "move", "移动"),
        ("Enter", "fold and unfold a branch", "折叠或展开"),
        ("1 2 3, Tab", "another view: GPUs, verdicts, lock queue", "切换视图"),
        ("s S, a click on a title", "sort by the next, the last, that column", "按下一列, 上一列, 该列排序"),
        ("o, a second click", "the other way round", "反转顺序"),
        ("/", "filter while you type; Esc clears", "边输入边筛选; Esc 清除"),
        ("t", "tree or flat list", "树形或平铺"),
        ("v", "reasons below the rows", "显示理由"),
        ("p", "pause; r asks once, at once", "暂停; r 立即刷新一次"),
        ("q, Ctrl-C", "quit", "退出"),
    ),
    "reading": (
        ("-", "not known, which is not 0", "未知, 不等于 0"),
        ("old, OLD DATA", "read too long ago to be believed", "读数太旧, 不可信"),
        ("UNREACHABLE", "the last page stays, with its age", "保留上次数据, 并标明时间"),
        ("SIMULATED", "no number here is of a real GPU", "并非真实 GPU 的数据"),
    ),
}


class Words:
    """The words of one language; a word that is not in the table is said as it is."""

    def __init__(self, language: Language = "en") -> None:
        self.language = language
        self._column = LANGUAGES.index(language)

    def __call__(self, key: str, **values: object) -> str:
        found = _WORDS.get(key)
        if found is None:
            return key
        return found[self._column].format(**values) if values else found[self._column]

    def status(self, word: str) -> str:
        found = _WORDS.get(f"status.{word}")
        return found[self._column] if found else word

    def help(self) -> list[tuple[str, str]]:
        """Keys and signs, each with its meaning."""
        return [(row[0], row[1 + self._column]) for rows in _HELP.values() for row in rows]


def language_of(environ: Mapping[str, str]) -> Language:
    """As the usual variables ask; English in doubt."""
    asked = next((environ[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environ.get(name)), "")
    return "zh" if asked.lower().startswith("zh") else "en"
