import { demand, fill, LIST, NUMBER, OR_NULL, PAGE, YES_OR_NO } from '../fields.ts'
import { WORKSPACES } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted } from '../noun.ts'

const verb = defineVerbs(
  async () => (await import('../../resources/workspaces/operations.ts')).workspaces.operations,
  {
    args: { id: 'its id, slug or name, or a beginning of one' },
    names: { id: WORKSPACES },
  },
)

const NAME = fill('name', '--name <name>', 'its name')
const SLUG = fill(
  'slug',
  '--slug <slug>',
  'its name in URLs: lower-case letters and digits, separated by hyphens',
)
const SETTINGS = [
  fill('description', '--description <text>', 'what it is for; none to remove it', OR_NULL),
  fill(
    'default_text_model',
    '--text-model <slug>',
    'the model of calls that name none; none for the gateway’s own',
    OR_NULL,
  ),
  fill(
    'default_image_model',
    '--image-model <slug>',
    'the same for images: has no effect yet, so only none is taken',
    OR_NULL,
  ),
  fill(
    'default_provider_sort',
    '--provider-sort <by>',
    'price, throughput, latency or exacto; none for none',
    OR_NULL,
  ),
  fill(
    'disabled_server_tools',
    '--disabled-tools <names>',
    'server tools that its calls may not use, comma-separated; none for none',
    LIST,
  ),
  fill(
    'is_observability_broadcast_enabled',
    '--broadcast <on>',
    'whether its calls are sent to destinations: yes or no',
    YES_OR_NO,
  ),
  fill(
    'is_observability_io_logging_enabled',
    '--io-logging <on>',
    'whether prompts and answers are stored: yes or no',
    YES_OR_NO,
  ),
  fill(
    'io_logging_sampling_rate',
    '--io-logging-rate <share>',
    'the share of calls that are stored, 0.0001 to 1',
    NUMBER,
  ),
]
const NEW = [...SETTINGS, demand(NAME), demand(SLUG)]
const CHANGE = [...SETTINGS, NAME, fill('slug', '--slug <slug>', 'its name in URLs')]
const DELETION = [
  fill(
    'confirm_default_workspace_deletion',
    '--confirm-default',
    'also the default one; inference keys without a workspace are disabled for good',
    { read: () => 'true' },
  ),
]

/**
 * `gateway workspaces`: containers for keys and rules, by the same functions and rules as over
 * HTTP.
 */
export const createWorkspacesCommand = () =>
  defineNoun('workspaces', 'workspaces, which contain keys and rules', [
    verb('create', 'create a workspace', NEW, core => core.create),
    verb('list', 'list the workspaces', PAGE, core => core.list).printAs({
      SLUG: workspace => workspace.slug,
      NAME: workspace => workspace.name,
      'TEXT MODEL': workspace => workspace.default_text_model,
      CREATED: workspace => workspace.created_at,
      ID: workspace => workspace.id,
    }),
    verb('get <id>', 'show a workspace', [], core => core.get),
    verb('update <id>', 'change a workspace', CHANGE, core => core.update),
    verb(
      'delete <id>',
      'delete a workspace with everything in it',
      DELETION,
      core => core.delete,
    ).printAs(printDeleted),
  ])
