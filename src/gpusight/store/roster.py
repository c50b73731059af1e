"""Who is who: rows of answers to keys, computed once per series and remembered over rounds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpusight.model.series import Place, SeriesKey
from gpusight.store.answer import Row, labels_of
from gpusight.store.digest import unjoined
from gpusight.store.labels import PLAIN, Exporters, exporters, holder_dialect, holder_labels, place, series_key

NOBODY = SeriesKey("", "", "", "", "", "", "")
"""The key of series that name no GPU."""
_ROOM = 12
"""How many rows are remembered per row of a round's largest answer, before all are forgotten."""


class Sighting(NamedTuple):
    """One living series."""

    key: SeriesKey
    place: Place


class Roster:
    """Not to be shared by rounds that run at the same time."""

    def __init__(self, cluster_label: str) -> None:
        self.cluster_label = cluster_label
        self._sightings: dict[bytes, Sighting] = {}
        self._keys: dict[bytes, SeriesKey] = {}
        self._own: dict[SeriesKey, SeriesKey] = {}
        self._exporters: Exporters = {}
        self._seen = 0

    def begin(self) -> None:
        """Forget what piled up; called once per round."""
        if len(self._sightings) + len(self._keys) > _ROOM * max(self._seen, 1000):
            self._sightings.clear()
            self._keys.clear()
            self._own.clear()
            self._exporters = {}
        self._seen = 0

    def jobs_in_question(self, rows: Iterable[Row]) -> set[str]:
        """Jobs with series that are new and whose pod may be the exporter's own."""
        new = (row for row in rows if bytes(row.metric) not in self._sightings)
        return self._doubtful_jobs(labels_of(row.metric) for row in new)

    def _doubtful_jobs(self, found: Iterable[Mapping[str, str]]) -> set[str]:
        return {labels.get("job", "") for labels in found if holder_dialect(labels) is PLAIN}

    def recorded_jobs_in_question(self, rows: Iterable[Row]) -> set[str]:
        """The same for rows of the digest that says where GPUs are."""
        new = (row for row in rows if bytes(row.metric) not in self._sightings)
        return self._doubtful_jobs(unjoined(labels_of(row.metric)) for row in new)

    def meet_exporters(self, up: Iterable[Row]) -> None:
        self._exporters = {**self._exporters, **exporters(labels_of(row.metric) for row in up)}

    def sightings(self, rows: Sequence[Row]) -> list[Sighting]:
        """Of rows with all labels."""
        self._seen = max(self._seen, len(rows))
        known, metrics = self._sightings, [bytes(row.metric) for row in rows]
        try:
            return [known[metric] for metric in metrics]
        except KeyError:
            return [known.get(metric) or self._met(metric, labels_of(metric)) for metric in metrics]

    def recorded_sightings(self, rows: Sequence[Row]) -> list[Sighting]:
        """Of rows of the digest that says where GPUs are."""
        self._seen = max(self._seen, len(rows))
        known, metrics = self._sightings, [bytes(row.metric) for row in rows]
        return [known.get(metric) or self._met(metric, unjoined(labels_of(metric))) for metric in metrics]

    def recorded_keys(self, rows: Sequence[Row]) -> list[SeriesKey]:
        """Of rows of any other digest."""
        self._seen = max(self._seen, len(rows))
        known, metrics = self._keys, [bytes(row.metric) for row in rows]
        return [known.get(metric) or self._read(metric, unjoined(labels_of(metric))) for metric in metrics]

    def _met(self, metric: bytes, labels: Mapping[str, str]) -> Sighting:
        held = holder_labels(labels, self._exporters)
        key = self._key(held)
        if held is not labels:
            self._own[self._key(labels)] = key
        sighting = self._sightings[metric] = Sighting(key, place(labels))
        return sighting

    def keys(self, rows: Sequence[Row]) -> list[SeriesKey]:
        """Of rows with the labels that tell subjects apart; call `sightings` first, which settles whose a pod is."""
        self._seen = max(self._seen, len(rows))
        known, metrics = self._keys, [bytes(row.metric) for row in rows]
        try:
            return [known[metric] for metric in metrics]
        except KeyError:
            return [known.get(metric) or self._read(metric, labels_of(metric)) for metric in metrics]

    def _read(self, metric: bytes, labels: Mapping[str, str]) -> SeriesKey:
        key = self._key(labels)
        key = self._keys[metric] = self._own.get(key, key)
        return key

    def _key(self, labels: Mapping[str, str]) -> SeriesKey:
        key = series_key(labels, self.cluster_label)
        return key if key.gpu else NOBODY
