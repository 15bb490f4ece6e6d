import { Command } from 'commander'
import { type CommonOptions, common, inputOf, listed, numeric, orNull, paged, yesOrNo } from '../options.ts'
import { output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface WorkspaceOptions extends CommonOptions {
  name?: string
  slug?: string
  description?: string
  textModel?: string
  imageModel?: string
  providerSort?: string
  disabledTools?: string
  broadcast?: boolean
  ioLogging?: boolean
  ioLoggingRate?: number
}

interface ListOptions extends CommonOptions {
  offset?: number
  limit?: number
}

interface DeleteOptions extends CommonOptions {
  confirmDefault?: boolean
}

/** `gateway workspaces`: places for keys and rules, by the same functions and rules as over HTTP. */
export const workspacesCommand = () =>
  new Command('workspaces')
    .description('workspaces: places for keys and rules')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(getCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())

const createCommand = () =>
  settings(common(new Command('create').description('create a workspace')))
    .requiredOption('--name <name>', 'what it is called')
    .requiredOption('--slug <slug>', 'its name in addresses: small letters and digits, with hyphens between')
    .action(create)

const listCommand = () => paged(common(new Command('list').description('list the workspaces'))).action(list)

const getCommand = () => common(new Command('get').description('show a workspace').argument('<id>', 'its id or slug')).action(get)

const updateCommand = () =>
  settings(common(new Command('update').description('change a workspace').argument('<id>', 'its id or slug')))
    .option('--name <name>', 'what it is called')
    .option('--slug <slug>', 'its name in addresses')
    .action(update)

const deleteCommand = () =>
  common(new Command('delete').description('delete a workspace with all that is in it').argument('<id>', 'its id or slug'))
    .option('--confirm-default', 'the default one too; the inference keys that name no workspace are disabled for good')
    .action(remove)

const settings = (command: Command): Command =>
  command
    .option('--description <text>', 'what it is for; none for nothing')
    .option('--text-model <slug>', 'the model of calls that name none; none for the gateway’s own')
    .option('--image-model <slug>', 'the same for images; none for none')
    .option('--provider-sort <by>', 'price, throughput, latency or exacto; none for none')
    .option('--disabled-tools <names>', 'server tools that its calls may not use, with commas between; none for none')
    .option('--broadcast <on>', 'whether its calls are sent to destinations: yes or no', yesOrNo)
    .option('--io-logging <on>', 'whether what is said is kept: yes or no', yesOrNo)
    .option('--io-logging-rate <share>', 'of how many calls, 0.0001 to 1', numeric)

async function create(options: WorkspaceOptions): Promise<void> {
  const { createWorkspace } = await import('../../core/identity/workspaces.ts')
  const { NewWorkspace } = await import('../../core/identity/workspaces/schema.ts')
  const input = inputOf(NewWorkspace, fieldsOf(options))
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await createWorkspace(gateway, actor, input), ({ data }) => printFields(data)),
  )
}

async function list(options: ListOptions): Promise<void> {
  const { listWorkspaces } = await import('../../core/identity/workspaces.ts')
  const { WorkspaceQuery } = await import('../../core/identity/workspaces/schema.ts')
  const query = inputOf(WorkspaceQuery, { offset: options.offset, limit: options.limit })
  await withGateway(options, (gateway, actor) =>
    output(options.json, listWorkspaces(gateway, actor, query), ({ data }) =>
      printTable(
        ['SLUG', 'NAME', 'TEXT MODEL', 'CREATED', 'ID'],
        data.map(one => [one.slug, one.name, one.default_text_model, one.created_at, one.id]),
      ),
    ),
  )
}

async function get(id: string, options: CommonOptions): Promise<void> {
  const { getWorkspace } = await import('../../core/identity/workspaces.ts')
  await withGateway(options, (gateway, actor) => output(options.json, getWorkspace(gateway, actor, id), ({ data }) => printFields(data)))
}

async function update(id: string, options: WorkspaceOptions): Promise<void> {
  const { updateWorkspace } = await import('../../core/identity/workspaces.ts')
  const { WorkspaceChange } = await import('../../core/identity/workspaces/schema.ts')
  const change = inputOf(WorkspaceChange, fieldsOf(options))
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await updateWorkspace(gateway, actor, id, change), ({ data }) => printFields(data)),
  )
}

async function remove(id: string, options: DeleteOptions): Promise<void> {
  const { deleteWorkspace } = await import('../../core/identity/workspaces.ts')
  const query = options.confirmDefault ? { confirm_default_workspace_deletion: 'true' as const } : {}
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteWorkspace(gateway, actor, id, query), () => print(`Deleted ${id}`)),
  )
}

const fieldsOf = (options: WorkspaceOptions) => ({
  name: options.name,
  slug: options.slug,
  description: orNull(options.description),
  default_text_model: orNull(options.textModel),
  default_image_model: orNull(options.imageModel),
  default_provider_sort: orNull(options.providerSort),
  disabled_server_tools: listed(options.disabledTools),
  is_observability_broadcast_enabled: options.broadcast,
  is_observability_io_logging_enabled: options.ioLogging,
  io_logging_sampling_rate: options.ioLoggingRate,
})
