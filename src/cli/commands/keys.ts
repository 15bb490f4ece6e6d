import { Command } from 'commander'
import { type CommonOptions, common, inputOf, orNull, usdOrNone, workspaceId } from '../options.ts'
import { dollars, output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface LimitOptions extends CommonOptions {
  limit?: number | 'none'
  limitReset?: string
  byokInLimit?: boolean
}

interface CreateOptions extends LimitOptions {
  name: string
  management?: boolean
  expiresAt?: string
  workspace?: string
}

interface UpdateOptions extends LimitOptions {
  name?: string
  disable?: boolean
  enable?: boolean
}

interface ListOptions extends CommonOptions {
  all?: boolean
  workspace?: string
}

/** `gateway keys`: API keys, by the same functions and rules as over HTTP. */
export const keysCommand = () =>
  new Command('keys')
    .description('API keys')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(getCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())

const createCommand = () =>
  limits(common(new Command('create').description('create a key and print it, once')))
    .requiredOption('--name <name>', 'what it is for')
    .option('--management', 'a key that manages, and cannot infer')
    .option('--expires-at <time>', 'ISO 8601 in UTC with seconds')
    .option('--workspace <id>', 'its workspace, by id or slug')
    .action(create)

const listCommand = () =>
  common(new Command('list').description('list the keys of a workspace'))
    .option('--all', 'disabled ones too')
    .option('--workspace <id>', 'another workspace, by id or slug')
    .action(list)

const getCommand = () => common(new Command('get').description('show a key').argument('<hash>')).action(get)

const updateCommand = () =>
  limits(common(new Command('update').description('change a key').argument('<hash>')))
    .option('--name <name>', 'what it is for')
    .option('--disable', 'open nothing any more')
    .option('--enable', 'open again')
    .option('--no-byok-in-limit', 'do not count spending through own provider keys')
    .action(update)

const deleteCommand = () => common(new Command('delete').description('delete a key').argument('<hash>')).action(remove)

const limits = (command: Command): Command =>
  command
    .option('--limit <usd>', 'spending limit in USD, or none', usdOrNone)
    .option('--limit-reset <period>', 'daily, weekly, monthly, or none')
    .option('--byok-in-limit', 'count spending through own provider keys')

async function create(options: CreateOptions): Promise<void> {
  const { createKey } = await import('../../core/identity/keys.ts')
  const { NewKey } = await import('../../core/identity/keys/schema.ts')
  await withGateway(options, async (gateway, actor) => {
    const input = inputOf(NewKey, {
      name: options.name,
      limit: orNull(options.limit),
      limit_reset: orNull(options.limitReset),
      include_byok_in_limit: options.byokInLimit,
      expires_at: options.expiresAt,
      workspace_id: await workspaceId(gateway, options.workspace),
    })
    const created = await createKey(gateway, actor, input, options.management ? 'management' : 'inference')
    output(options.json, created, ({ key, data }) => {
      print(key)
      print(`This key is shown once. Its hash is ${data.hash}`)
    })
  })
}

async function list(options: ListOptions): Promise<void> {
  const { KeyQuery } = await import('../../core/identity/keys/schema.ts')
  const { listKeys } = await import('../../core/identity/keys.ts')
  await withGateway(options, async (gateway, actor) => {
    const query = { include_disabled: options.all ? 'true' : undefined, workspace_id: await workspaceId(gateway, options.workspace) }
    output(options.json, listKeys(gateway, actor, inputOf(KeyQuery, query)), ({ data }) =>
      printTable(
        ['NAME', 'LABEL', 'USED', 'LIMIT', 'STATE', 'HASH'],
        data.map(key => [key.name, key.label, dollars(key.usage), dollars(key.limit), key.disabled ? 'disabled' : 'active', key.hash]),
      ),
    )
  })
}

async function get(hash: string, options: CommonOptions): Promise<void> {
  const { getKey } = await import('../../core/identity/keys.ts')
  await withGateway(options, (gateway, actor) => output(options.json, getKey(gateway, actor, hash), ({ data }) => printFields(data)))
}

async function update(hash: string, options: UpdateOptions): Promise<void> {
  const { KeyChange } = await import('../../core/identity/keys/schema.ts')
  const { updateKey } = await import('../../core/identity/keys.ts')
  const change = inputOf(KeyChange, {
    name: options.name,
    limit: orNull(options.limit),
    limit_reset: orNull(options.limitReset),
    include_byok_in_limit: options.byokInLimit,
    disabled: options.disable ? true : options.enable ? false : undefined,
  })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await updateKey(gateway, actor, hash, change), ({ data }) => printFields(data)),
  )
}

async function remove(hash: string, options: CommonOptions): Promise<void> {
  const { deleteKey } = await import('../../core/identity/keys.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteKey(gateway, actor, hash), () => print(`Deleted ${hash}`)),
  )
}
