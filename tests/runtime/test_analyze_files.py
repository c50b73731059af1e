"""Whose a namespace is and what a GPU-hour costs, as people write it down."""

from pathlib import Path

import pytest

from gpusight.analysis.tenancy import Tenant
from gpusight.errors import StartError
from gpusight.runtime.analyze_files import read_prices, read_tenants


def test_tenants_by_namespace_and_by_cluster(tmp_path: Path) -> None:
    file = tmp_path / "tenants.yaml"
    file.write_text(
        "namespaces:\n  vision: {owner: li@example.com, team: CV}\n"
        "clusters:\n  east:\n    vision: {owner: wang@example.com}\n"
    )
    tenancy = read_tenants(file)

    assert tenancy.of("west", "vision") == Tenant("li@example.com", "CV")
    assert tenancy.of("east", "vision") == Tenant("wang@example.com", "")
    assert tenancy.of("east", "other") == Tenant("", "")


def test_prices_by_model(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("currency: CNY\nmodels:\n  H100 PCIe: 20\n  H100: 30\n")
    prices = read_prices(file)

    assert prices.currency == "CNY"
    assert prices.per_gpu_hour("NVIDIA H100 PCIe") == 20
    assert prices.per_gpu_hour("NVIDIA H100 80GB HBM3") == 30
    assert prices.per_gpu_hour("Tesla T4") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("currency: CNY\nmodels: {H100: -1}\n", "not a number from 0 on"),
        ("currency: CNY\nmodels: {'[': 1}\n", "is not a regular expression"),
        ("currency: CNY\nmodels: {H100: .inf}\n", "not a number from 0 on"),
        ("models: {}\n", "currency"),
        ("currency: [\n", "not valid YAML"),
        ("- a\n", "Expected `object`"),
    ],
)
def test_bad_prices_are_refused_with_a_sentence(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(text)
    with pytest.raises(StartError, match=complaint):
        read_prices(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"tenants file .*gone.yaml cannot be read: No such file"):
        read_tenants(tmp_path / "gone.yaml")


def test_a_file_without_an_end_is_refused() -> None:
    with pytest.raises(StartError, match="larger than 8 MiB"):
        read_tenants(Path("/dev/zero"))
