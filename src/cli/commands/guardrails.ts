import { Option } from 'commander'
import { invalid } from '../../core/errors.ts'
import type { Gateway } from '../../core/gateway.ts'
import { parseObject } from '../../core/kernel/json.ts'
import {
  type Fields,
  type Flags,
  fill,
  fillWorkspace,
  LIST,
  OR_NULL,
  offer,
  PAGE,
  splitList,
  USD_OR_NULL,
} from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, take } from '../noun.ts'
import { dollars, print, printTable } from '../output.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../core/policy/guardrails.ts')),
    ...(await import('../../core/policy/guardrails/schema.ts')),
    ...(await import('../../core/identity/default-guardrail.ts')),
  }),
  { args: { id: 'its id; a workspace’s id or slug for the default one there' } },
)
const assignmentVerb = defineVerbs(async () => ({
  ...(await import('../../core/policy/assignments.ts')),
  ...(await import('../../core/policy/assignments/schema.ts')),
  ...(await import('../../core/policy/guardrails/schema.ts')),
  ...(await import('../../core/policy/guardrails.ts')),
}))

const WORDS: Fields = {
  options: [
    new Option('--name <name>', 'what it is called'),
    new Option(
      '--from <file>',
      'fields as the API takes them, in a file of JSON; options win over them',
    ),
  ],
  read: async ({ name, from }: { name?: string; from?: string }) => ({
    ...(from === undefined ? {} : await readObject(from)),
    ...(name === undefined ? {} : { name }),
  }),
}
const ZDR = {
  anthropic: ['enforce_zdr_anthropic'],
  openai: ['enforce_zdr_openai'],
  google: ['enforce_zdr_google'],
  xai: ['enforce_zdr_xai'],
  other: ['enforce_zdr_other'],
}
const TRAINING = {
  free: ['enable_free_model_training', 'enable_free_model_publication'],
  paid: ['enable_paid_model_training'],
}
const RULES = [
  WORDS,
  fill('description', '--description <text>', 'what it is for'),
  fill(
    'allowed_models',
    '--allow-models <slugs>',
    'these models only, with commas between; none for all',
    LIST,
  ),
  fill(
    'ignored_models',
    '--ignore-models <slugs>',
    'none of these models, nor their variants',
    LIST,
  ),
  fill('allowed_providers', '--allow-providers <slugs>', 'these providers only', LIST),
  fill('ignored_providers', '--ignore-providers <slugs>', 'none of these providers', LIST),
  fill(
    'allowed_data_regions',
    '--regions <regions>',
    'only calls that come in by these: global, europe, us',
    LIST,
  ),
  fillSwitches(
    ZDR,
    '--zdr <groups>',
    'zero data retention for the models of these, and of no others: anthropic, openai, google, xai, other; or all',
  ),
  fillSwitches(
    TRAINING,
    '--training <kinds>',
    'who may train on prompts, and nobody else: free, paid',
  ),
  fill(
    'content_filter_builtins',
    '--filters <list>',
    'built-in content filters and what they do: email=redact,phone=block',
    { read: (text: string) => splitList(text)?.map(readFilter) ?? null },
  ),
  fill('filterOutput', '--filter-output', 'scan what models say as well'),
  fill('limit_usd', '--limit <usd>', 'budget in USD, or none', USD_OR_NULL),
  fill('reset_interval', '--reset <interval>', 'daily, weekly, monthly, or none', OR_NULL),
  fill('include_byok_in_budgets', '--byok-in-budgets', 'count spending through own provider keys'),
]
const NEW = [...RULES, fillWorkspace('its workspace, by id or slug')]
const CHANGE = [
  ...RULES,
  offer('--no-byok-in-budgets', 'do not count spending through own provider keys'),
  offer('--no-filter-output', 'do not scan what models say'),
]
const LISTED = [...PAGE, fillWorkspace('another workspace, by id or slug')]
const ASSIGNED = [...PAGE, offer('--members', 'members, not keys')]
const ASSIGNEES = [
  fill('key_hashes', '--keys <hashes>', 'of API keys, with commas between', LIST),
  fill('member_user_ids', '--members <ids>', 'of members, with commas between', LIST),
]

/** `gateway guardrails`: rules for calls, by the same functions and checks as over HTTP. */
export const guardrailsCommand = () =>
  defineNoun(
    'guardrails',
    'rules for calls: whom they may go to, what they may cost, what may stand in them',
    [
      verb('create', 'create a guardrail, which holds for nobody until it is assigned', NEW, of =>
        take(of.NewGuardrail, of.createGuardrail),
      ),
      verb('list', 'list the guardrails of a workspace', LISTED, of =>
        take(of.GuardrailQuery, of.listGuardrails),
      ).prints({
        NAME: guardrail => guardrail.name,
        BUDGET: ({ limit_usd, reset_interval }) =>
          limit_usd === null ? null : `${dollars(limit_usd)} ${reset_interval}`,
        ID: guardrail => guardrail.id,
      }),
      verb(
        'get <id>',
        'show a guardrail',
        [],
        of => async (gateway, actor, name) =>
          of.getGuardrail(gateway, actor, findId(of, gateway, name)),
      ),
      verb(
        'update <id>',
        'change a guardrail. A workspace’s default one is made by its first change',
        CHANGE,
        of =>
          take(of.GuardrailChange, (gateway, actor, name, change) =>
            of.updateGuardrail(gateway, actor, findId(of, gateway, name), change),
          ),
      ),
      verb(
        'delete <id>',
        'delete a guardrail',
        [],
        of => (gateway, actor, name) =>
          of.deleteGuardrail(gateway, actor, findId(of, gateway, name)),
      ).prints(printDeleted),
      assignmentVerb(
        'assign <id>',
        'give keys or members a guardrail, in the place of the one that they have',
        ASSIGNEES,
        (of, flags: Assignees) =>
          namesKeys(flags)
            ? take(of.KeyNames, of.assignKeys)
            : take(of.MemberNames, of.assignMembers),
      ).prints(({ assigned_count }) => print(`Assigned ${assigned_count}`)),
      assignmentVerb(
        'unassign <id>',
        'take a guardrail from keys or members',
        ASSIGNEES,
        (of, flags: Assignees) =>
          namesKeys(flags)
            ? take(of.KeyNames, of.unassignKeys)
            : take(of.MemberNames, of.unassignMembers),
      ).prints(({ unassigned_count }) => print(`Unassigned ${unassigned_count}`)),
      assignmentVerb(
        'assignments [id]',
        'list who has a guardrail of their own: this one, or any',
        ASSIGNED,
        (of, { members }: { members?: boolean }) =>
          take(of.GuardrailPage, async (gateway, actor, id, page) =>
            members
              ? of.listMemberAssignments(gateway, actor, page, id)
              : of.listKeyAssignments(gateway, actor, page, id),
          ),
      ).prints(({ data }, { flags: { members } }) =>
        printTable(
          members ? ['MEMBER', 'GUARDRAIL'] : ['KEY', 'LABEL', 'GUARDRAIL', 'HASH'],
          data.map(one =>
            'user_id' in one
              ? [one.user_id, one.guardrail_id]
              : [one.key_name, one.key_label, one.guardrail_id, one.key_hash],
          ),
        ),
      ),
    ],
  )

type Assignees = { keys?: string; members?: string }

/** Whether a line names keys and not members. Throws 400 unless it names one of the two. */
function namesKeys({ keys, members }: Assignees): boolean {
  if ((keys === undefined) === (members === undefined))
    throw invalid('assign: expected --keys or --members, one of the two')
  return keys !== undefined
}

/** Finds the id of a guardrail, of which a workspace's id or slug names the default one. */
function findId(
  { defaultGuardrailId }: { defaultGuardrailId(workspace: string): string },
  gateway: Gateway,
  name: string,
): string {
  const workspaces = [...gateway.memory.workspaces.values()]
  const workspace = workspaces.find(({ id, slug }) => id === name || slug === name)
  return workspace ? defaultGuardrailId(workspace.id) : name
}

/** The fields that a word of an option stands for. */
type Switches = Record<string, string[]>

/** Offers an option that switches on the fields of the words that it names, and off all others. */
function fillSwitches(switches: Switches, flags: string, description: string): Fields {
  const option = new Option(flags, description)
  const name = option.attributeName()
  const read = (given: Flags) =>
    given[name] === undefined ? {} : readSwitches(switches, name, String(given[name]))
  return { options: [option], read }
}

// `all` names every word, and `none` no word.
function readSwitches(switches: Switches, name: string, text: string): Record<string, boolean> {
  const words = text === 'all' ? Object.keys(switches) : (splitList(text) ?? [])
  if (words.some(word => !Object.hasOwn(switches, word)))
    throw invalid(`${name}: expected ${Object.keys(switches).join(', ')}, all or none`)
  const values = Object.entries(switches).flatMap(([word, fields]) =>
    fields.map(field => [field, words.includes(word)]),
  )
  return Object.fromEntries(values)
}

function readFilter(text: string): { slug: string; action: string } {
  const [slug = '', action = ''] = text.split('=')
  return { slug, action }
}

async function readObject(file: string): Promise<Record<string, unknown>> {
  const text = await Bun.file(file)
    .text()
    .catch(() => undefined)
  const object = text === undefined ? undefined : parseObject(text)
  if (!object) throw invalid(`${file}: expected a file that holds a JSON object`)
  return object
}
