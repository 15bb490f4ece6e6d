import { Command } from 'commander'
import { invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { parseObject } from '../../core/kernel/json.ts'
import { type CommonOptions, common, inputOf, listed, orNull, paged, usdOrNone, workspaceId } from '../options.ts'
import { dollars, output, print, printFields, printTable } from '../output.ts'
import { withGateway } from '../with-gateway.ts'

interface RuleOptions extends CommonOptions {
  from?: string
  name?: string
  description?: string
  allowModels?: string
  ignoreModels?: string
  allowProviders?: string
  ignoreProviders?: string
  regions?: string
  zdr?: string
  training?: string
  filters?: string
  filterOutput?: boolean
  limit?: number | 'none'
  reset?: string
  byokInBudgets?: boolean
}

interface CreateOptions extends RuleOptions {
  workspace?: string
}

interface ListOptions extends CommonOptions {
  workspace?: string
  offset?: number
  limit?: number
}

interface AssignOptions extends CommonOptions {
  keys?: string
  members?: string
}

interface AssignmentsOptions extends CommonOptions {
  members?: boolean
  offset?: number
  limit?: number
}

/** `gateway guardrails`: rules for calls, by the same functions and checks as over HTTP. */
export const guardrailsCommand = () =>
  new Command('guardrails')
    .description('rules for calls: whom they may go to, what they may cost, what may stand in them')
    .addCommand(createCommand())
    .addCommand(listCommand())
    .addCommand(getCommand())
    .addCommand(updateCommand())
    .addCommand(deleteCommand())
    .addCommand(assignCommand('assign', 'give keys or members a guardrail, in the place of the one that they have', assign))
    .addCommand(assignCommand('unassign', 'take a guardrail from keys or members', unassign))
    .addCommand(assignmentsCommand())

const ID = 'its id; a workspace’s id or slug for the default one there'

const createCommand = () =>
  rules(common(new Command('create').description('create a guardrail, which holds for nobody until it is assigned')))
    .option('--workspace <id>', 'its workspace, by id or slug')
    .action(create)

const listCommand = () =>
  paged(common(new Command('list').description('list the guardrails of a workspace')))
    .option('--workspace <id>', 'another workspace, by id or slug')
    .action(list)

const getCommand = () => common(new Command('get').description('show a guardrail').argument('<id>', ID)).action(get)

const updateCommand = () =>
  rules(
    common(
      new Command('update').description('change a guardrail. A workspace’s default one is made by its first change').argument('<id>', ID),
    ),
  )
    .option('--no-byok-in-budgets', 'do not count spending through own provider keys')
    .option('--no-filter-output', 'do not scan what models say')
    .action(update)

const deleteCommand = () => common(new Command('delete').description('delete a guardrail').argument('<id>', ID)).action(remove)

const assignCommand = (verb: string, description: string, action: (id: string, options: AssignOptions) => Promise<void>) =>
  common(new Command(verb).description(description).argument('<id>'))
    .option('--keys <hashes>', 'of API keys, with commas between')
    .option('--members <ids>', 'of members, with commas between')
    .action(action)

const assignmentsCommand = () =>
  paged(common(new Command('assignments').description('list who has a guardrail of their own: this one, or any').argument('[id]')))
    .option('--members', 'members, not keys')
    .action(assignments)

const rules = (command: Command): Command =>
  command
    .option('--name <name>', 'what it is called')
    .option('--from <file>', 'fields as the API takes them, in a file of JSON; options win over them')
    .option('--description <text>', 'what it is for')
    .option('--allow-models <slugs>', 'these models only, with commas between; none for all')
    .option('--ignore-models <slugs>', 'none of these models, nor their variants')
    .option('--allow-providers <slugs>', 'these providers only')
    .option('--ignore-providers <slugs>', 'none of these providers')
    .option('--regions <regions>', 'only calls that come in by these: global, europe, us')
    .option(
      '--zdr <groups>',
      'zero data retention for the models of these, and of no others: anthropic, openai, google, xai, other; or all',
    )
    .option('--training <kinds>', 'who may train on prompts, and nobody else: free, paid')
    .option('--filters <list>', 'built-in content filters and what they do: email=redact,phone=block')
    .option('--filter-output', 'scan what models say as well')
    .option('--limit <usd>', 'budget in USD, or none', usdOrNone)
    .option('--reset <interval>', 'daily, weekly, monthly, or none')
    .option('--byok-in-budgets', 'count spending through own provider keys')

async function create(options: CreateOptions): Promise<void> {
  const { createGuardrail } = await import('../../core/policy/guardrails.ts')
  const { NewGuardrail } = await import('../../core/policy/guardrails/schema.ts')
  const fields = await fieldsOf(options)
  await withGateway(options, async (gateway, actor) => {
    const workspace = await workspaceId(gateway, options.workspace)
    const input = inputOf(NewGuardrail, workspace === undefined ? fields : { ...fields, workspace_id: workspace })
    output(options.json, await createGuardrail(gateway, actor, input), ({ data }) => printFields(data))
  })
}

async function list(options: ListOptions): Promise<void> {
  const { GuardrailQuery } = await import('../../core/policy/guardrails/schema.ts')
  const { listGuardrails } = await import('../../core/policy/guardrails.ts')
  await withGateway(options, async (gateway, actor) => {
    const { offset, limit } = options
    const query = inputOf(GuardrailQuery, { offset, limit, workspace_id: await workspaceId(gateway, options.workspace) })
    output(options.json, listGuardrails(gateway, actor, query), ({ data }) =>
      printTable(
        ['NAME', 'BUDGET', 'ID'],
        data.map(one => [one.name, one.limit_usd === null ? null : `${dollars(one.limit_usd)} ${one.reset_interval}`, one.id]),
      ),
    )
  })
}

async function get(id: string, options: CommonOptions): Promise<void> {
  const { getGuardrail } = await import('../../core/policy/guardrails.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, getGuardrail(gateway, actor, await guardrailId(gateway, id)), ({ data }) => printFields(data)),
  )
}

async function update(id: string, options: RuleOptions): Promise<void> {
  const { GuardrailChange } = await import('../../core/policy/guardrails/schema.ts')
  const { updateGuardrail } = await import('../../core/policy/guardrails.ts')
  const change = inputOf(GuardrailChange, await fieldsOf(options))
  await withGateway(options, async (gateway, actor) => {
    const changed = await updateGuardrail(gateway, actor, await guardrailId(gateway, id), change)
    output(options.json, changed, ({ data }) => printFields(data))
  })
}

async function remove(id: string, options: CommonOptions): Promise<void> {
  const { deleteGuardrail } = await import('../../core/policy/guardrails.ts')
  await withGateway(options, async (gateway, actor) =>
    output(options.json, await deleteGuardrail(gateway, actor, await guardrailId(gateway, id)), () => print(`Deleted ${id}`)),
  )
}

async function assign(id: string, options: AssignOptions): Promise<void> {
  const { assignKeys, assignMembers } = await import('../../core/policy/assignments.ts')
  const { keys, members } = await assigneesOf(options)
  await withGateway(options, async (gateway, actor) => {
    const answer = keys ? await assignKeys(gateway, actor, id, keys) : await assignMembers(gateway, actor, id, members)
    output(options.json, answer, ({ assigned_count }) => print(`Assigned ${assigned_count}`))
  })
}

async function unassign(id: string, options: AssignOptions): Promise<void> {
  const { unassignKeys, unassignMembers } = await import('../../core/policy/assignments.ts')
  const { keys, members } = await assigneesOf(options)
  await withGateway(options, async (gateway, actor) => {
    const answer = keys ? await unassignKeys(gateway, actor, id, keys) : await unassignMembers(gateway, actor, id, members)
    output(options.json, answer, ({ unassigned_count }) => print(`Unassigned ${unassigned_count}`))
  })
}

async function assignments(id: string | undefined, options: AssignmentsOptions): Promise<void> {
  const { listKeyAssignments, listMemberAssignments } = await import('../../core/policy/assignments.ts')
  const { GuardrailPage } = await import('../../core/policy/guardrails/schema.ts')
  const page = inputOf(GuardrailPage, { offset: options.offset, limit: options.limit })
  await withGateway(options, (gateway, actor) => {
    if (options.members)
      output(options.json, listMemberAssignments(gateway, actor, page, id), ({ data }) =>
        printTable(
          ['MEMBER', 'GUARDRAIL'],
          data.map(one => [one.user_id, one.guardrail_id]),
        ),
      )
    else
      output(options.json, listKeyAssignments(gateway, actor, page, id), ({ data }) =>
        printTable(
          ['KEY', 'LABEL', 'GUARDRAIL', 'HASH'],
          data.map(one => [one.key_name, one.key_label, one.guardrail_id, one.key_hash]),
        ),
      )
  })
}

/** The id of the guardrail that an argument names; a workspace's id or slug names its default one. */
async function guardrailId(gateway: Gateway, name: string): Promise<string> {
  const { defaultGuardrailId } = await import('../../core/identity/default-guardrail.ts')
  const workspace = [...gateway.memory.workspaces.values()].find(one => one.id === name || one.slug === name)
  return workspace ? defaultGuardrailId(workspace.id) : name
}

/** Keys or members, one of the two. */
async function assigneesOf({ keys, members }: AssignOptions) {
  const { KeyNames, MemberNames } = await import('../../core/policy/assignments/schema.ts')
  if ((keys === undefined) === (members === undefined)) throw invalid('assign: expected --keys or --members, one of the two')
  return keys === undefined
    ? { keys: undefined, members: inputOf(MemberNames, { member_user_ids: listed(members) }) }
    : { keys: inputOf(KeyNames, { key_hashes: listed(keys) }), members: undefined }
}

async function fieldsOf(options: RuleOptions): Promise<Record<string, unknown>> {
  const given = {
    name: options.name,
    description: options.description,
    allowed_models: listed(options.allowModels),
    ignored_models: listed(options.ignoreModels),
    allowed_providers: listed(options.allowProviders),
    ignored_providers: listed(options.ignoreProviders),
    allowed_data_regions: listed(options.regions),
    ...switched('zdr', options.zdr, ZDR),
    ...switched('training', options.training, TRAINING),
    content_filter_builtins: listed(options.filters)?.map(filterOf) ?? (options.filters === undefined ? undefined : null),
    filterOutput: options.filterOutput,
    limit_usd: orNull(options.limit),
    reset_interval: orNull(options.reset),
    include_byok_in_budgets: options.byokInBudgets,
  }
  const known = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { ...(options.from === undefined ? {} : await objectIn(options.from)), ...known }
}

const ZDR = {
  anthropic: ['enforce_zdr_anthropic'],
  openai: ['enforce_zdr_openai'],
  google: ['enforce_zdr_google'],
  xai: ['enforce_zdr_xai'],
  other: ['enforce_zdr_other'],
}
const TRAINING = { free: ['enable_free_model_training', 'enable_free_model_publication'], paid: ['enable_paid_model_training'] }

/** A switch for every word of the table: on for those that are said. */
function switched(option: string, said: string | undefined, table: Record<string, string[]>): Record<string, boolean> {
  if (said === undefined) return {}
  const words = said === 'all' ? Object.keys(table) : (listed(said) ?? [])
  const strange = words.find(word => !Object.hasOwn(table, word))
  if (strange !== undefined) throw invalid(`${option}: expected ${Object.keys(table).join(', ')}, all or none`)
  return Object.fromEntries(Object.entries(table).flatMap(([word, fields]) => fields.map(field => [field, words.includes(word)])))
}

function filterOf(said: string): { slug: string; action: string } {
  const [slug = '', action = ''] = said.split('=')
  return { slug, action }
}

async function objectIn(file: string): Promise<Record<string, unknown>> {
  const text = await Bun.file(file)
    .text()
    .catch(() => undefined)
  const object = text === undefined ? undefined : parseObject(text)
  if (!object) throw invalid(`${file}: expected a file that holds a JSON object`)
  return object
}
