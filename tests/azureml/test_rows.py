"""Each row of the SDK's tables that this version covers, with the test that checks its values.

Rows about services, sweeps and distribution are covered where those are tested.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]

ROWS = [
    # Imports and exceptions
    ("every import path resolves", "azureml/test_import_map.py:what_is_there_is_real"),
    (
        "azureml.core.VERSION after `import azureml`",
        "azureml/test_import_map.py:the_version_is_found_after_importing_azureml_alone",
    ),
    ("telemetry does nothing", "azureml/test_import_map.py:telemetry_is_accepted_and_does_nothing"),
    (
        "exceptions have Azure's bases",
        "azureml/test_import_map.py:exceptions_stand_below_the_base_that_azure_gives_them",
    ),
    ("str(e) and e.message", "azureml/test_import_map.py:an_exceptions_text_is_its_message"),
    ("ActivityFailedException.error_details", "sdk/test_errors.py:a_failed_activity_holds_its_details"),
    ("submit-time errors", "sdk/test_with_server.py:mistakes_are_azures_exceptions"),
    ("RunEnvironmentException", "sdk/test_offline.py:outside_a_run_a_real_context_can_be_insisted_on"),
    ("SnapshotException: a second snapshot", "sdk/test_run_snapshots.py:a_run_keeps_its_first_snapshot"),
    ("RunConfigurationException: wrong types", "sdk/test_configuration.py:wrong_types_are_refused_at_once"),
    (
        "AttributeError for a misspelt setting",
        "sdk/test_configuration.py:a_misspelt_attribute_is_an_error_that_names_the_near_one",
    ),
    # Workspace
    ("from_config searches upwards", "sdk/test_workspace_config.py:parents_are_searched_after_the_folder_itself"),
    (
        "from_config looks in three folders for two names",
        "sdk/test_workspace_config.py:each_folder_is_searched_in_azures_order",
    ),
    ("from_config(_file_name)", "sdk/test_workspace_config.py:another_file_name_can_be_asked_for"),
    ("from_config(path) without a file", "sdk/test_workspace_config.py:an_explicit_path_without_a_file_is_an_error"),
    ("config.json in both forms", "sdk/test_workspace_config.py:both_forms_are_read"),
    ("write_config", "sdk/test_workspace_config.py:it_is_written_where_it_is_found_again"),
    ("create, exist_ok", "sdk/test_with_server.py:workspaces_are_created_once_unless_told_otherwise"),
    (
        "create's facts, properties, get_details, list",
        "sdk/test_workspace_rows.py:a_workspace_keeps_what_it_was_created_with",
    ),
    ("get", "sdk/test_with_server.py:a_workspace_is_made_when_a_config_names_it"),
    ("texts that notebooks print", "sdk/test_with_server.py:the_default_workspace_has_texts_that_notebooks_print"),
    ("dict properties, also called", "sdk/test_workspace_rows.py:what_is_a_dict_since_1_0_can_be_called_as_in_2018"),
    ("get_run of any experiment", "sdk/test_with_server.py:a_submitted_run_is_found_waited_for_and_described"),
    (
        "get_mlflow_tracking_uri",
        "sdk/test_tracking_address.py:a_workspace_has_an_address_for_mlflow_where_mlflow_is_installed",
    ),
    ("delete", "sdk/test_workspace_rows.py:a_workspace_is_deleted_when_its_runs_have_ended"),
    ("authentication classes", "sdk/test_deleting.py:every_way_to_sign_in_is_taken_and_talks_to_nobody"),
    # Experiment
    ("names", "sdk/test_with_server.py:a_wrong_experiment_name_is_refused"),
    ("submit(tags)", "sdk/test_workspace_rows.py:a_submit_takes_tags_and_a_live_run_tells_its_status"),
    ("submit returns at once", "sdk/test_with_server.py:submit_does_not_wait_for_the_run"),
    ("start_logging", "sdk/test_with_server.py:an_interactive_run_lives_from_start_to_complete"),
    (
        "start_logging's arguments",
        "sdk/test_workspace_rows.py:an_interactive_run_takes_its_id_its_names_and_its_folder",
    ),
    ("get_runs(tags, properties)", "sdk/test_with_server.py:runs_are_filtered_by_tags_and_properties"),
    (
        "get_runs(type, include_children), Run.list, list_by_compute",
        "sdk/test_workspace_rows.py:runs_are_listed_by_type_parent_and_target",
    ),
    ("get_runs(status)", "sdk/test_deleting.py:runs_are_filtered_by_status"),
    (
        "archive, reactivate, tags, list",
        "sdk/test_with_server.py:experiments_are_listed_tagged_archived_and_brought_back",
    ),
    (
        "refresh, id, portal, html",
        "sdk/test_workspace_rows.py:an_experiment_shows_itself_and_is_the_same_wherever_it_is_looked_up",
    ),
    ("Experiment.delete", "sdk/test_deleting.py:an_experiment_is_deleted_by_its_id_once_its_runs_have_ended"),
    # Run
    (
        "get_context, get_submitted_run",
        "sdk/test_context.py:there_is_one_object_for_the_process_and_its_log_is_the_writers_own",
    ),
    ("add_type_provider", "sdk/test_run_surface.py:runs_of_a_registered_type_are_made_by_its_factory"),
    ("identity", "sdk/test_with_server.py:tags_properties_and_names_change_from_outside"),
    ("repr and _repr_html_", "sdk/test_run_surface.py:a_run_shows_itself_as_text_and_as_a_table"),
    ("get_environment", "sdk/test_run_surface.py:the_environment_is_what_the_run_used"),
    ("start, clean", "sdk/test_run_surface.py:start_and_clean_change_nothing"),
    ("parent: read, written", "sdk/test_children.py:a_submitted_child_reads_its_parent_and_adds_to_it"),
    ("parent.cancel()", "sdk/test_children.py:a_submitted_child_cancels_its_parent_and_all_end"),
    ("child_run", "sdk/test_children.py:a_child_run_is_running_at_once_named_after_its_parent_and_ended_by_itself"),
    ("create_children", "sdk/test_children.py:children_are_made_by_count_or_by_tag_values"),
    ("create_children's errors", "sdk/test_children.py:wrong_ways_to_make_children_are_refused_and_make_none"),
    ("get_children's filters", "sdk/test_children.py:filters_narrow_what_is_listed_but_not_where_it_is_looked_for"),
    ("submit_child", "sdk/test_children.py:a_script_makes_lists_and_submits_children_with_its_own_token"),
    ("tag values become text", "sdk/test_small_parts.py:tag_values_become_text_with_a_warning"),
    ("log of every scalar", "runtime/test_log_values.py:a_scalar_comes_back_as_the_plain_value_that_was_logged"),
    ("what metrics refuse", "sdk/test_with_server.py:values_that_no_metric_can_have_raise_azures_exceptions"),
    ("log_image", "sdk/test_small_parts.py:images_are_recognised_by_their_first_bytes"),
    ("log_residuals and its like", "sdk/test_run_surface.py:the_log_forms_of_json_take_dicts_and_text"),
    ("get_metrics", "e2e/test_example.py:every_form_of_metric_reads_back_as_azure_gives_it"),
    ("metrics after the end", "sdk/test_with_server.py:metrics_are_logged_on_a_finished_run"),
    (
        "3,000 rows of 15 columns",
        "e2e/test_many_children.py:a_hundred_children_3000_rows_500_files_and_50_tags_read_back_identical",
    ),
    ("statuses and waiting", "sdk/test_with_server.py:output_is_shown_while_the_run_goes_on"),
    ("polling variables", "sdk/test_small_parts.py:azures_variables_move_the_limits_of_the_pace"),
    ("Ctrl-C while streaming", "sdk/test_with_server.py:ctrl_c_while_streaming_leaves_the_run_alone"),
    ("the log that is followed", "sdk/test_small_parts.py:the_first_processs_log_is_the_one_to_follow"),
    ("Failed raises, with the error", "sdk/test_with_server.py:a_failed_run_raises_with_its_error_as_json"),
    ("Canceled does not raise", "sdk/test_with_server.py:a_canceled_run_does_not_raise"),
    ("get_details", "sdk/test_small_parts.py:details_of_a_live_run_have_no_end_and_no_error"),
    ("error's shape", "sdk/test_small_parts.py:details_of_a_failed_run_hold_the_error_in_azures_shape"),
    ("fail from the client", "sdk/test_with_server.py:fail_from_outside_stops_the_run"),
    ("complete and cancel inside", "sdk/test_with_server.py:inside_its_script_a_run_is_ended_by_the_exit_alone"),
    ("with blocks", "sdk/test_children.py:a_with_block_completes_fails_or_exits_and_keeps_what_it_printed"),
    ("download_file", "sdk/test_run_surface.py:a_file_is_downloaded_to_a_name_a_folder_or_here"),
    ("download_files", "sdk/test_run_surface.py:files_are_downloaded_by_prefix"),
    (
        "upload_file, upload_files, upload_folder",
        "sdk/test_run_surface.py:files_go_up_by_path_by_stream_in_lists_and_as_folders",
    ),
    ("what files refuse", "sdk/test_with_server.py:wrong_files_are_refused"),
    ("get_all_logs", "sdk/test_run_surface.py:all_logs_are_written_below_assets_or_a_folder"),
    ("the offline run's members", "sdk/test_offline.py:it_has_exactly_the_members_that_azure_has"),
    ("the offline run's prints", "sdk/test_offline.py:each_call_prints_what_it_would_have_done"),
    # Variables
    ("run context variables", "launchers/test_launch_variables.py:a_run_has_all_of_azures_variables_and_ours"),
    ("variables a script sees", "e2e/test_example.py:the_run_sees_azures_variables_and_the_submitters"),
    ("$VAR in arguments", "e2e/test_example.py:arguments_and_variables_are_expanded_in_the_process"),
    ("AZUREML_GIT_…", "snapshots/test_git.py:variables_override_what_git_says"),
    # ScriptRunConfig, RunConfiguration
    ("the documented example", "e2e/test_example.py:the_documented_example_runs_as_it_stands"),
    ("no environment", "sdk/test_plan.py:without_an_environment_the_submitting_interpreter_is_used"),
    ("run_config wins, with a warning", "sdk/test_configuration.py:a_given_run_config_wins_with_a_warning"),
    ("script and arguments win", "sdk/test_plan.py:script_and_arguments_win_over_those_of_run_config"),
    ("command", "sdk/test_plan.py:a_command_is_run_by_a_shell_as_it_stands"),
    ("arguments become texts", "sdk/test_plan.py:arguments_become_texts_as_str_gives_them"),
    ("edited after construction", "sdk/test_script_run_config.py:settings_edited_afterwards_count"),
    ("max_run_duration_seconds", "e2e/test_failures.py:the_time_limit_cancels_the_run"),
    (
        "docker settings of the environment",
        "sdk/test_configuration.py:docker_settings_come_from_the_environment_unless_given",
    ),
    ("defaults", "sdk/test_configuration.py:defaults_are_azures"),
    ("save, load, delete", "sdk/test_configuration_files.py:saved_and_loaded_is_the_same"),
    ("keys in order", "sdk/test_configuration_files.py:the_file_has_azures_keys_in_azures_order"),
    ("a file of Azure's SDK", "sdk/test_configuration_files.py:a_file_of_azures_sdk_loads"),
    ("Azure-only settings", "sdk/test_script_run_config.py:settings_that_only_azure_acts_on_are_reported_once"),
    ("Spark", "sdk/test_script_run_config.py:a_spark_job_is_refused_with_what_to_do"),
    # Snapshots, outputs, logs, git
    ("only changed files travel", "snapshots/test_cache.py:one_changed_file_sends_itself_and_its_ancestors"),
    ("no limits, a warning", "snapshots/test_walk.py:a_large_tree_is_taken_with_a_warning_that_names_the_biggest"),
    (".amlignore and .gitignore", "snapshots/test_ignore.py:amlignore_wins_over_gitignore"),
    ("ignore files of subfolders", "snapshots/test_ignore.py:ignore_files_of_subfolders_are_read"),
    ("an identical tree", "e2e/test_example.py:an_identical_tree_is_the_same_snapshot"),
    ("restore_snapshot", "sdk/test_run_snapshots.py:a_folder_is_stored_with_a_run_and_comes_back_as_a_zip"),
    ("outputs after a failure", "e2e/test_failures.py:a_checkpoint_saved_on_term_is_kept"),
    ("./logs while it runs", "e2e/test_example.py:a_file_in_logs_is_downloadable_while_the_run_goes_on"),
    ("a copy is the work folder", "e2e/test_example.py:the_work_folder_is_a_copy_with_modes_and_empty_folders"),
    ("git properties", "snapshots/test_git.py:a_clean_repository_gives_the_properties_of_azure"),
    # Datastores
    ("the default datastores", "sdk/test_datastore.py:a_workspace_has_its_default_datastores"),
    ("upload, download, overwrite", "sdk/test_datastore.py:upload_and_download_count"),
    ("upload_files, relative_root", "sdk/test_datastore.py:upload_files_keeps_the_paths_below_their_common_folder"),
    ("what cannot be uploaded", "sdk/test_datastore.py:what_cannot_be_uploaded_is_named"),
    ("register, unregister", "sdk/test_datastore.py:a_folder_of_ones_own_becomes_a_datastore"),
    ("set_as_default", "sdk/test_datastore.py:the_default_can_be_changed_and_changed_back"),
    (
        "register_azure_blob_container, S3",
        "data/test_object_storage.py:runs_read_and_write_it_and_its_keys_are_nowhere",
    ),
    ("put and get on moto and Azurite", "data/test_object_storage.py:files_go_there_and_come_back_whole"),
    ("as_mount, as_download, as_upload", "sdk/test_datastore.py:runs_get_data_by_mount_download_and_upload"),
    ("DataReference's text and name", "sdk/test_data_plan.py:a_reference_is_its_variable"),
    ("DataReference: wrong modes", "sdk/test_data_plan.py:a_reference_that_cannot_be_is_refused"),
    ("DataReference's ways, to_config", "sdk/test_data_plan.py:ways_to_have_data_keep_its_name_and_path"),
    ("DataPath.create_data_reference", "sdk/test_datastore.py:a_datapath_is_a_reference_once_it_is_bound"),
    ("DataPathComputeBinding", "sdk/test_data_plan.py:a_binding_says_how_a_datapath_is_had"),
    # Datasets
    ("File.from_files, globs", "sdk/test_file_datasets.py:files_are_found_by_path_and_pattern"),
    (
        "lists of paths, DataPath, nothing there",
        "sdk/test_file_datasets.py:files_of_the_same_name_stay_apart_and_nothing_is_an_error",
    ),
    (
        "skip, take, take_sample, random_split",
        "sdk/test_file_datasets.py:parts_are_the_same_for_the_same_seed_and_share_the_files_out",
    ),
    (
        "register, versions, tags, get_by_name, get_all",
        "sdk/test_file_datasets.py:a_name_has_versions_and_the_same_data_is_the_same_version",
    ),
    ("download, mount, data_changed_time", "sdk/test_file_datasets.py:download_and_mount_on_this_machine"),
    ("as_named_input, input_datasets", "sdk/test_file_datasets.py:a_script_reads_mounted_and_downloaded_data"),
    ("OutputFileDatasetConfig", "sdk/test_file_datasets.py:outputs_end_on_their_datastore_and_become_datasets"),
    (
        "File.upload_directory, register_model(datasets)",
        "e2e/test_data_journey.py:a_script_trains_on_a_mounted_dataset_and_all_it_made_is_found_again",
    ),
    ("Tabular.from_…", "sdk/test_tabular_datasets.py:every_kind_of_file_gives_the_same_rows"),
    ("Tabular: types, include_path, header", "sdk/test_tabular_datasets.py:types_and_paths_are_as_asked_for"),
    ("keep_columns, drop_columns", "sdk/test_tabular_datasets.py:rows_and_columns_are_narrowed_step_by_step"),
    ("with_timestamp_columns, time_…", "sdk/test_tabular_datasets.py:time_filters_need_to_know_the_column"),
    (
        "to_csv_files, to_parquet_files",
        "sdk/test_tabular_datasets.py:a_registered_table_is_a_table_again_and_can_be_written",
    ),
    ("a table as an input", "sdk/test_tabular_datasets.py:a_script_gets_the_table_itself"),
    # Models and secrets
    ("run.register_model, download", "sdk/test_models.py:a_runs_file_and_folder_become_models"),
    (
        "Model, Model.register, list, delete",
        "sdk/test_models.py:versions_count_up_are_listed_newest_first_and_found_by_what_they_say",
    ),
    (
        "update, tags, properties",
        "sdk/test_models.py:what_is_said_about_a_version_can_change_and_its_properties_cannot",
    ),
    ("get_model_path", "sdk/test_models.py:get_model_path_downloads_once_and_finds_what_lies_beside_the_program"),
    ("model.datasets, dataset_id", "sdk/test_models.py:a_model_knows_its_datasets_by_what_they_were_for"),
    ("WebserviceException", "sdk/test_models.py:mistakes_are_web_service_exceptions"),
    ("download(exist_ok)", "sdk/test_models.py:a_file_that_is_there_is_not_overwritten_unless_that_is_fine"),
    ("keyvault, run.get_secret", "sdk/test_keyvault.py:a_script_reads_the_secrets_of_its_workspace"),
    # TensorBoard, widgets, small packages
    ("Tensorboard: start, stop", "e2e/test_tensorboard.py:what_pytorch_writes_is_followed_and_shows_as_metrics"),
    ("export_to_tensorboard", "e2e/test_tensorboard.py:exported_metrics_are_what_tensorboard_reads"),
    ("RunDetails outside of a notebook", "sdk/test_run_card.py:outside_of_a_notebook_it_is_text"),
    ("MNIST", "sdk/test_opendatasets.py:mnist_says_where_its_files_belong_and_is_found_there"),
    ("Diabetes", "sdk/test_opendatasets.py:diabetes_comes_out_of_scikit_learn"),
    # 2018
    (
        "prepare_environment, container_instance",
        "sdk/test_configuration.py:what_2018_scripts_set_is_accepted_without_effect",
    ),
    (
        "azureml.train.widgets, azureml.contrib.tensorboard",
        "azureml/test_import_map.py:a_name_is_one_object_wherever_it_is_imported_from",
    ),
]


@lru_cache
def functions_in(file: str) -> frozenset[str]:
    tree = ast.parse((TESTS / file).read_text())
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("row", "test"), ROWS, ids=[row for row, _ in ROWS])
def test_every_row_names_a_test_that_is_there(row: str, test: str) -> None:
    file, _, name = test.partition(":")

    assert f"test_{name}" in functions_in(file)


OPEN_POINTS = [
    "`TruncationSelectionPolicy(exclude_finished_jobs=…)`",
    "`get_metrics()` of a metric with one value",
    "`log_row` with different columns under one name",
    "numpy integers in `run.log`",
    "HyperDrive on `local`",
    "`BanditPolicy(slack_factor=…)` that minimises",
    "registering an environment that is the same as its newest version",
    "order of `get_runs()`",
    "`run.fail()` from the client on a live run",
    "log files of a local run",
    "uploading a name again",
    "statuses of a local run",
]


@pytest.mark.parametrize("point", OPEN_POINTS)
def test_what_azure_leaves_open_is_decided_in_the_page_of_differences(point: str) -> None:
    page = (TESTS.parent / "docs" / "azureml-differences.md").read_text()
    [row] = [line for line in page.splitlines() if line.startswith(f"| {point}")]

    assert len(row.split("|")) >= 5 and row.split("|")[3].strip()
