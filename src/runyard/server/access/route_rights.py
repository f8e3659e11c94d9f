"""Which verbs each route asks for. A route that is not listed refuses every request; no route asks for other verbs."""

from __future__ import annotations

from typing import Final

API: Final = "/api/v1"
_OF_API = """
GET /health
GET /server                                                read_server
POST /server/collect                                       collect
POST /server/stop                                          stop_server
POST /signin-codes                                         sign_in
POST /download-tickets                                     sign_in
POST /signout                                              sign_in
GET /workspaces                                            read_workspace
GET /workspaces/{workspace}                                read_workspace
PUT /workspaces/{workspace}                                put_workspace read_workspace
DELETE /workspaces/{workspace}                             delete_workspace
GET /workspaces/{workspace}/experiments                    read_workspace
GET /workspaces/{workspace}/experiments/{experiment}       read_workspace
PUT /workspaces/{workspace}/experiments/{experiment}       put_experiment read_workspace
PATCH /workspaces/{workspace}/experiments/{experiment}     update_experiment
DELETE /workspaces/{workspace}/experiments/{experiment}    delete_experiment
POST /workspaces/{workspace}/experiments/{experiment}/restore   delete_experiment
GET /workspaces/{workspace}/assets/{kind}                  read_workspace
GET /workspaces/{workspace}/assets/{kind}/{name}           read_workspace
POST /workspaces/{workspace}/assets/{kind}/{name}          put_asset change_asset
PUT /workspaces/{workspace}/assets/{kind}/{name}/{version} change_asset
DELETE /workspaces/{workspace}/assets/{kind}/{name}        change_asset
GET /workspaces/{workspace}/compute                        read_workspace
GET /workspaces/{workspace}/compute/{name}                 read_workspace
PUT /workspaces/{workspace}/compute/{name}                 change_target
PATCH /workspaces/{workspace}/compute/{name}               change_target
DELETE /workspaces/{workspace}/compute/{name}              change_target
GET /workspaces/{workspace}/datastores/{name}/files        read_workspace
POST /workspaces/{workspace}/datastores/{name}/files       put_data
GET /workspaces/{workspace}/datastores/{name}/files/{path} read_workspace
GET /environments                                          list_environments
POST /environments/prune                                   manage_environments
DELETE /environments/{key}                                 manage_environments
GET /workspaces/{workspace}/models                         read_workspace
GET /workspaces/{workspace}/models/{name}                  read_workspace
POST /workspaces/{workspace}/models/{name}                 put_asset read_run
PATCH /workspaces/{workspace}/models/{name}/{version}      change_model
DELETE /workspaces/{workspace}/models/{name}/{version}     change_model
GET /workspaces/{workspace}/models/{name}/{version}/files/{path} read_workspace
POST /workspaces/{workspace}/imports/known                 import_runs
POST /workspaces/{workspace}/imports/runs                  import_runs
POST /workspaces/{workspace}/imports/assets                import_runs
GET /workspaces/{workspace}/services                       read_workspace
GET /workspaces/{workspace}/services/{name}                read_workspace
POST /workspaces/{workspace}/services/{name}               put_service change_service
PATCH /workspaces/{workspace}/services/{name}              change_service
DELETE /workspaces/{workspace}/services/{name}             change_service
POST /workspaces/{workspace}/services/{name}/rollback      change_service
GET /workspaces/{workspace}/services/{name}/keys           change_service
POST /workspaces/{workspace}/services/{name}/keys          change_service
POST /workspaces/{workspace}/services/{name}/token         change_service
GET /workspaces/{workspace}/services/{name}/log            read_workspace
GET /workspaces/{workspace}/services/{name}/openapi        read_workspace
POST /workspaces/{workspace}/services/{name}/try           change_service
GET /workspaces/{workspace}/secrets                        read_secret
GET /workspaces/{workspace}/secrets/{name}                 read_secret
PUT /workspaces/{workspace}/secrets/{name}                 change_secret
DELETE /workspaces/{workspace}/secrets/{name}              change_secret
POST /runs                                                 create_run write_run
GET /runs                                                  read_run
GET /runs/{run_id}                                         read_run
PATCH /runs/{run_id}                                       write_run
DELETE /runs/{run_id}                                      delete_run
POST /runs/{run_id}/restore                                delete_run
POST /runs/{run_id}/cancel                                 cancel_run
POST /runs/{run_id}/fail                                   fail_run
POST /runs/{run_id}/writers                                fail_run
POST /runs/{run_id}/resubmit                               resubmit_run
POST /runs/bulk                                            change_runs write_run cancel_run delete_run
POST /runs/plan                                            plan_run
GET /runs/{run_id}/plan                                    read_run
GET /runs/{run_id}/sweep                                   read_run
GET /workspaces/{workspace}/runs                           list_runs
GET /workspaces/{workspace}/runs/named                     list_runs read_run
GET /workspaces/{workspace}/table                          list_runs
GET /workspaces/{workspace}/columns                        list_runs
GET /workspaces/{workspace}/groups                         list_runs
GET /workspaces/{workspace}/tally                          list_runs
POST /metrics/summary                                      read_run
POST /charts                                               read_run
GET /events                                                read_run list_runs
GET /runs/{run_id}/metrics                                 read_run
GET /runs/{run_id}/metrics/values                          read_run
GET /runs/{run_id}/metrics/series                          read_run
GET /runs/{run_id}/metrics/chart                           read_run
GET /runs/{run_id}/files                                   read_run
POST /runs/{run_id}/files                                  add_file
POST /runs/{run_id}/files/batch                            add_file
POST /runs/{run_id}/files/fetch                            read_run
GET /runs/{run_id}/files/{name}                            read_run
GET /runs/{run_id}/zip                                     read_run
GET /runs/{run_id}/log/lines                               read_run
GET /runs/{run_id}/log/search                              read_run
GET /runs/{run_id}/log/first-error                         read_run
POST /runs/{run_id}/ship                                   ship
POST /runs/{run_id}/heartbeat                              heartbeat
POST /runs/{run_id}/state                                  state
GET /runs/{run_id}/nodes                                   read_run
POST /runs/{run_id}/nodes/{rank}                           node
POST /runs/{run_id}/nodes/{rank}/join                      join
GET /nodes/bundle                                          read_server
GET /nodes/uv                                              read_server
POST /chunks                                               put_content
POST /chunks/missing                                       put_content
POST /chunks/release                                       put_content
POST /chunks/fetch                                         read_content
POST /trees                                                put_content
GET /trees/{tree}                                          read_content
POST /snapshots                                            put_content
GET /snapshots/{snapshot}                                  read_content
GET /snapshots/{snapshot}/files                            read_content
GET /snapshots/{snapshot}/files/{path}                     read_content
GET /snapshots/{snapshot}/zip                              read_content
GET /snapshots/{snapshot}/diff                             read_content
GET /users/me                                              read_server
GET /users                                                 manage_users
POST /users                                                manage_users
PATCH /users/{name}                                        manage_users
DELETE /users/{name}                                       manage_users
POST /users/{name}/tokens                                  manage_users
DELETE /users/{name}/tokens/{label}                        manage_users
POST /users/{name}/rotate                                  manage_users
"""
STATIC: Final = "GET /static/{name}"


def _read(lines: str) -> dict[str, tuple[str, ...]]:
    words = [line.split() for line in lines.strip().splitlines()]
    return {f"{method} {path}": tuple(verbs) for method, path, *verbs in words}


API_ROUTES: Final = _read(_OF_API)  # below API; the first verb is what the route is for


def verbs_of(method: str, template: str, *, is_api: bool) -> tuple[str, ...]:
    """Return what a route, by its template with or without API before it, may ask for; unknown ones nothing."""
    if is_api:
        return API_ROUTES.get(f"{method} {template.removeprefix(API)}", ())
    return ("read_server",) if f"{method} {template}" == STATIC else ("list_runs",)  # the studio's pages
