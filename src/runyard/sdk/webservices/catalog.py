"""Which services a workspace has."""

from __future__ import annotations

from typing import TYPE_CHECKING, List, Optional

from runyard.core.webservices import RevisionSpec
from runyard.core.webservices import Webservice as ServiceRecord
from runyard.sdk.config.texts import check_texts
from runyard.sdk.models.files import Search, has_all
from runyard.sdk.serving.deployment import service_errors
from runyard.sdk.webservices.configuration import LOCAL
from runyard.sdk.webservices.webservice import Webservice

if TYPE_CHECKING:
    from runyard.sdk.workspaces.workspace import Workspace


def list_services(
    workspace: Workspace,
    *,
    compute_type: Optional[str] = None,
    image: Optional[str] = None,
    model: Optional[str] = None,
    tags: Search = None,
    properties: Search = None,
    image_digest: Optional[str] = None,
) -> List[Webservice]:
    """Return the services that match, by name; local ones when they are asked for by their type.

    Args:
        workspace: of the services.
        compute_type: Azure's word; upper and lower case are the same.
        image: `name:version`, or `name:` for any version.
        model: alike.
        tags: names, or pairs of name and value.
        properties: as tags.
        image_digest: of an image in Azure's registry: no service has one.
    """
    check_texts(compute_type=compute_type, image=image, model=model, image_digest=image_digest)
    if image_digest is not None:
        return []
    with service_errors():
        found = workspace._client.webservices.list(workspace.name)
    return [
        Webservice._known(workspace, one)
        for one in found
        if _is_of_type(one, compute_type)
        and _names(_spec_of(one).models, model)
        and _names([str(_spec_of(one).definition.get("imageId") or "")], image)
        and has_all(one.settings.tags, tags)
        and has_all(one.settings.properties, properties)
    ]


def _is_of_type(service: ServiceRecord, wanted: Optional[str]) -> bool:
    found = service.settings.compute_type
    return found != LOCAL if wanted is None else found.lower() == wanted.lower()


def _names(ids: List[str], wanted: Optional[str]) -> bool:
    if wanted is None:
        return True
    return any(one.rpartition(":")[0] == wanted[:-1] if wanted.endswith(":") else one == wanted for one in ids)


def _spec_of(service: ServiceRecord) -> RevisionSpec:
    chosen = service.serving or (service.revisions[-1] if service.revisions else None)
    return chosen.spec if chosen is not None else RevisionSpec()
