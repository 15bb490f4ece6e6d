import { Command } from 'commander'
import { invalid } from '../../core/errors.ts'
import { type CommonOptions, common, inputOf, listed, paged, workspaceId } from '../options.ts'
import { output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface KeyOptions extends CommonOptions {
  keyFile?: string
  keyEnv?: string
  name?: string
  fallback?: boolean
  only?: boolean
  required?: boolean
  zdr?: string
  models?: string
  keys?: string
  users?: string
}

interface CreateOptions extends KeyOptions {
  provider: string
  workspace?: string
  disabled?: boolean
}

interface UpdateOptions extends KeyOptions {
  keyStdin?: boolean
  disable?: boolean
  enable?: boolean
}

interface ListOptions extends CommonOptions {
  workspace?: string
  provider?: string
  offset?: number
  limit?: number
}

/** `gateway byok`: callers' own provider keys, by the same functions and rules as over HTTP. */
export const byokCommand = () =>
  new Command('byok')
    .description('provider keys of a workspace’s own, used before the gateway’s')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(getCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())

const createCommand = () =>
  settings(
    common(
      new Command('create').description(
        'add a provider key. It is read from stdin, a file or a variable, and is no argument: those stay in the shell’s history',
      ),
    ),
  )
    .requiredOption('--provider <slug>', 'whose key it is')
    .option('--disabled', 'not to be used yet')
    .option('--workspace <id>', 'its workspace, by id or slug')
    .action(create)

const listCommand = () =>
  paged(common(new Command('list').description('list the provider keys of a workspace')))
    .option('--provider <slug>', 'of one provider')
    .option('--workspace <id>', 'another workspace, by id or slug')
    .action(list)

const getCommand = () => common(new Command('get').description('show a provider key, never its secret').argument('<id>')).action(get)

const updateCommand = () =>
  settings(common(new Command('update').description('change a provider key; a new one takes the old one’s place').argument('<id>')))
    .option('--key-stdin', 'read a new key from stdin')
    .option('--no-fallback', 'tried before the gateway’s own credential again')
    .option('--no-only', 'the gateway’s own credential may serve the provider again')
    .option('--no-required', 'the gateway’s own credential may serve the key’s models again')
    .option('--disable', 'not to be used any more')
    .option('--enable', 'to be used again')
    .action(update)

const deleteCommand = () => common(new Command('delete').description('delete a provider key').argument('<id>')).action(remove)

const settings = (command: Command): Command =>
  command
    .option('--key-file <file>', 'the file that holds the key, or the JSON of a service account or of AWS credentials')
    .option('--key-env <name>', 'the environment variable that holds it')
    .option('--name <name>', 'what it is called')
    .option('--fallback', 'tried after the gateway’s own credential, not before it')
    .option('--only', 'the gateway’s own credential serves no model of this provider')
    .option('--required', 'the gateway’s own credential serves none of the models that this key is for')
    .option('--zdr <declared>', 'whether the provider keeps nothing for you: yes, no, or none for what is publicly known')
    .option('--models <slugs>', 'for these models only, with commas between; none for all')
    .option('--keys <hashes>', 'for these API keys only; none for all')
    .option('--users <ids>', 'for these users only; none for all')

async function create(options: CreateOptions): Promise<void> {
  const { createByokKey } = await import('../../core/catalog/byok.ts')
  const { NewByokKey } = await import('../../core/catalog/byok/schema.ts')
  const key = await keyGiven(options, true)
  await withGateway(options, async (gateway, actor) => {
    const workspace_id = await workspaceId(gateway, options.workspace)
    const input = inputOf(NewByokKey, { ...fieldsOf(options), key, provider: options.provider, disabled: options.disabled, workspace_id })
    output(options.json, await createByokKey(gateway, actor, input), ({ data }) => printFields(data))
  })
}

async function list(options: ListOptions): Promise<void> {
  const { ByokQuery } = await import('../../core/catalog/byok/schema.ts')
  const { listByokKeys, stateOf } = await import('../../core/catalog/byok.ts')
  await withGateway(options, async (gateway, actor) => {
    const { provider, offset, limit } = options
    const query = inputOf(ByokQuery, { provider, offset, limit, workspace_id: await workspaceId(gateway, options.workspace) })
    output(options.json, listByokKeys(gateway, actor, query), ({ data }) =>
      printTable(
        ['PROVIDER', 'NAME', 'LABEL', 'TURN', 'STATE', 'ID'],
        data.map(key => [key.provider, key.name, key.label, key.is_fallback ? 'fallback' : 'first', stateOf(gateway, key.id), key.id]),
      ),
    )
  })
}

async function get(id: string, options: CommonOptions): Promise<void> {
  const { getByokKey, stateOf } = await import('../../core/catalog/byok.ts')
  await withGateway(options, (gateway, actor) =>
    output(options.json, getByokKey(gateway, actor, id), ({ data }) => printFields({ ...data, state: stateOf(gateway, id) })),
  )
}

async function update(id: string, options: UpdateOptions): Promise<void> {
  const { ByokChange } = await import('../../core/catalog/byok/schema.ts')
  const { updateByokKey } = await import('../../core/catalog/byok.ts')
  const disabled = options.disable ? true : options.enable ? false : undefined
  const change = inputOf(ByokChange, { ...fieldsOf(options), key: await keyGiven(options, options.keyStdin === true), disabled })
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await updateByokKey(gateway, actor, id, change), ({ data }) => printFields(data)),
  )
}

async function remove(id: string, options: CommonOptions): Promise<void> {
  const { deleteByokKey } = await import('../../core/catalog/byok.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteByokKey(gateway, actor, id), () => print(`Deleted ${id}`)),
  )
}

const fieldsOf = (options: KeyOptions) => ({
  name: options.name,
  is_fallback: options.fallback,
  is_byok_only: options.only,
  is_required: options.required,
  declared_zdr: declared(options.zdr),
  allowed_models: listed(options.models),
  allowed_api_key_hashes: listed(options.keys),
  allowed_user_ids: listed(options.users),
})

function declared(text: string | undefined): boolean | null | undefined {
  if (text === undefined || text === 'none') return text && null
  if (text !== 'yes' && text !== 'no') throw invalid('zdr: expected yes, no or none')
  return text === 'yes'
}

/** The key, from where the options say; undefined when none is given. What ends it in a file is no part of it. */
async function keyGiven({ keyFile, keyEnv }: KeyOptions, fromStdin: boolean): Promise<string | undefined> {
  if (keyFile !== undefined) return (await fileText(keyFile)).trim()
  if (keyEnv !== undefined) return variable(keyEnv)
  return fromStdin ? (await Bun.stdin.text()).trim() : undefined
}

const fileText = (file: string) =>
  Bun.file(file)
    .text()
    .catch(() => {
      throw invalid(`${file}: the key file cannot be read`)
    })

function variable(name: string): string {
  const value = process.env[name]
  if (value === undefined) throw invalid('key-env: expected the name of an environment variable that is set')
  return value.trim()
}
