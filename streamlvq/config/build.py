"""Build the classifier that a configuration describes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Mapping
from typing import Any

from streamlvq.config.errors import ConfigError, KeyPath, Problem
from streamlvq.config.schema import (
    MAX_VALUES,
    PRIVATE_MODEL,
    Config,
    ModelSection,
    PrivacySection,
    RejectorSection,
)
from streamlvq.errors import ParameterError
from streamlvq.registry import MODELS
from streamlvq.text import suggestion

_TYPE_OF = {"ProbabilityRejector": "probability"}  # of the section `rejector`
_MEMBERS = "members"  # the parameter that may be a mapping from names to models
_MAX_INTEGER = 2**31 - 1
_BOOLEANS = {"true": True, "false": False}


def build_classifier(config: Config, model: Any = None) -> Any:
    """Build a new classifier: the model, wrapped in an integrator and a rejector if configured.

    It expects readings after `model.transform`; see `build_transform`.

    Parameters
    ----------
    config
        The configuration; `ConfigError` is raised if it asks for something unknown.
    model
        A model to wrap, instead of a new one as described by the section `model`.

    Examples
    --------

    >>> from streamlvq.config import build_classifier, loads

    >>> text = '''
    ... model: {type: GLVQ, parameters: {half_life: 5000}}
    ... integrator: {window: adaptive}
    ... rejector: {target_rate: 0.05}
    ... '''
    >>> classifier = build_classifier(loads(text))
    >>> type(classifier).__name__, type(classifier.classifier).__name__
    ('RelSimRejector', 'TimeIntegrator')
    >>> classifier.classifier.classifier.half_life
    5000

    """
    classifier = build_model(config.model, privacy=config.privacy) if model is None else model
    if config.integrator is not None:
        classifier = _build_integrator(classifier, config)
    if config.rejector is not None:
        classifier = _build_rejector(classifier, config.rejector)
    return classifier


def build_transform(section: ModelSection, classifier: Any) -> Any:
    """Wrap a classifier in the transform of the section `model`, if there is one.

    `build_classifier` leaves this to callers whose readings are in the units of the sensors.
    """
    from streamlvq.wrappers import FeatureTransform  # noqa: PLC0415

    if section.transform is None and section.private is None:
        return classifier
    try:
        return FeatureTransform(classifier, section.transform, private=section.private)
    except ParameterError as error:
        raise _config_error(error, ("model",)) from error


def build_full_classifier(config: Config, model: Any = None) -> Any:
    """Build a classifier for readings in sensor units: `build_classifier` in its transform."""
    return build_transform(config.model, build_classifier(config, model))


def build_model(
    section: ModelSection, path: KeyPath = ("model",), privacy: PrivacySection | None = None
) -> Any:
    """Build the bare model of a section; raise `ConfigError`."""
    if section.type == PRIVATE_MODEL:
        if privacy is None:
            expected = "expected a section 'privacy:' too: it says what is promised"
            raise _error((*path, "type"), expected)
        return _build_private(section, privacy, path)
    if section.type not in MODELS:
        known = ", ".join(MODELS)
        raise _error(
            (*path, "type"),
            f"expected one of {known}, got {section.type!r}"
            f"{suggestion(section.type, MODELS.names)}",
        )
    model = MODELS[section.type]
    _refuse_unknown(model, section, path)
    _refuse_huge(section, path)
    given = {
        name: _with_members(name, value, (*path, "parameters", name))
        for name, value in section.parameters.items()
    }
    try:
        return model(**given)
    except (ValueError, TypeError) as error:
        raise _config_error(error, (*path, "parameters")) from error


def build_privacy(section: PrivacySection) -> Any:
    """Build the promise of a section `privacy`; raise `ConfigError`."""
    from streamlvq.privacy import Privacy  # noqa: PLC0415 - slow to import

    given = {name: getattr(section, name) for name in section.__struct_fields__}
    del given["metric"]
    try:
        return Privacy(**given)
    except ParameterError as error:
        raise _config_error(error, ("privacy",)) from error


# of a model that a promise is too much for: they are keys of the section `privacy`
_PROMISED = frozenset(PrivacySection.__struct_fields__)


def _build_private(section: ModelSection, privacy: PrivacySection, path: KeyPath) -> Any:
    from streamlvq.privacy import PrivateLVQ  # noqa: PLC0415 - slow to import

    promise = build_privacy(privacy)
    _refuse_unknown(PrivateLVQ, section, path, given_elsewhere=("privacy", "metric"))
    _refuse_huge(section, path)
    try:
        return PrivateLVQ(promise, metric=privacy.metric, **section.parameters)
    except (ValueError, TypeError) as error:
        if isinstance(error, ParameterError) and error.parameter in _PROMISED:
            raise _config_error(error, ("privacy",)) from error
        raise _config_error(error, (*path, "parameters")) from error


def _refuse_unknown(
    model: Any, section: ModelSection, path: KeyPath, given_elsewhere: Collection[str] = ()
) -> None:
    names = [name for name in inspect.signature(model).parameters if name not in given_elsewhere]
    unknown = [name for name in section.parameters if name not in names]
    if unknown:
        raise ConfigError(
            [
                Problem(
                    (*path, "parameters", name),
                    f"{section.type} has no such parameter"
                    + (suggestion(name, names) or f"; it has {', '.join(names)}"),
                )
                for name in unknown
            ]
        )


def _refuse_huge(section: ModelSection, path: KeyPath) -> None:
    """Refuse numbers that kernels or snapshots cannot hold."""
    for name, value in section.parameters.items():
        most = MAX_VALUES.get(name, _MAX_INTEGER)
        if isinstance(value, int) and abs(value) > most:
            where = (*path, "parameters", name)
            raise _error(where, f"expected a whole number up to {most}, got {value}")


def _with_members(name: str, value: Any, path: KeyPath) -> Any:
    """Return a parameter, with models built where it holds some."""
    if name == _MEMBERS and isinstance(value, Mapping):
        return {each: _member(model, (*path, str(each))) for each, model in value.items()}
    return value


def _member(value: Any, path: KeyPath) -> Any:
    """Build a model inside a model from its type and parameters; None stays None."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or not {"type"} <= value.keys() <= {"type", "parameters"}:
        raise _error(
            path,
            f"expected a model such as {{type: GLVQ, parameters: {{half_life: 1000}}}}, "
            f"got {value!r}",
        )
    parameters = value.get("parameters") or {}
    if not isinstance(value["type"], str) or not isinstance(parameters, Mapping):
        raise _error(path, f"expected a name as type and named parameters, got {value!r}")
    return build_model(ModelSection(type=value["type"], parameters=dict(parameters)), path)


def _build_integrator(classifier: Any, config: Config) -> Any:
    from streamlvq.wrappers import TimeIntegrator  # noqa: PLC0415

    section = config.integrator
    assert section is not None
    try:
        return TimeIntegrator(
            classifier,
            window=section.window,
            max_gap=section.max_gap,
            max_devices=section.max_devices,
        )
    except ValueError as error:
        raise _config_error(error, ("integrator",)) from error


def _build_rejector(classifier: Any, section: RejectorSection) -> Any:
    from streamlvq.wrappers import ProbabilityRejector, RelSimRejector  # noqa: PLC0415

    rejector = RelSimRejector if section.type == "relsim" else ProbabilityRejector
    try:
        return rejector(
            classifier,
            threshold=_by_label(section.threshold),
            target_rate=section.target_rate,
            target_accuracy=section.target_accuracy,
            reject_cost=section.reject_cost,
            memory=section.memory,
            per_class=section.per_class,
            novelty_rate=section.novelty_rate,
        )
    except ValueError as error:
        raise _config_error(error, ("rejector",)) from error


def _by_label(threshold: Any) -> Any:
    """Return thresholds by label, also for labels that payloads give as numbers or booleans."""
    if not isinstance(threshold, Mapping):
        return threshold
    numbers = {int(k): v for k, v in threshold.items() if re.fullmatch(r"-?[0-9]{1,18}", k)}
    truths = {_BOOLEANS[k]: v for k, v in threshold.items() if k in _BOOLEANS}
    return {**truths, **numbers, **threshold}


def _config_error(error: Exception, path: KeyPath) -> ConfigError:
    """Convert an error of a model or wrapper, with the path of the key that it is about."""
    if not isinstance(error, ParameterError):
        return _error(path, str(error))
    message = error.message
    if error.instead is not None:
        message += f"; use type: {_TYPE_OF.get(error.instead, error.instead)}"
    if error.parameter is None:
        return _error(path, message)
    parameter = "type" if error.parameter == "classifier" else error.parameter
    return _error((*path, parameter), message)


def _error(path: KeyPath, message: str) -> ConfigError:
    return ConfigError([Problem(path, message)])
