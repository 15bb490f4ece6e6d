import { Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import { parseObject } from '../../base/json.ts'
import {
  type Fields,
  type Flags,
  fill,
  fillAllNamed,
  fillWorkspace,
  LIST,
  NUMBER_OR_NULL,
  OR_NULL,
  offer,
  PAGE,
  splitList,
} from '../fields.ts'
import { describeOthers } from '../lists.ts'
import { GUARDRAILS, KEYS, MEMBERS } from '../names.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { formatDollars, print, printFields } from '../output.ts'

const load = async () =>
  (await import('../../limits/guardrails/operations.ts')).guardrails.operations
const verb = defineVerbs(load, {
  args: { id: 'its id or name; the id or slug of a workspace for its default one' },
  names: { id: GUARDRAILS },
})
const assignmentVerb = defineVerbs(load, {
  args: { id: 'its id or name' },
  names: { id: GUARDRAILS },
})
const assignmentsVerb = defineVerbs(
  async () => ({
    ...(await import('../../limits/assignments.ts')),
    ...(await import('../../limits/guardrails/schema.ts')),
  }),
  {
    args: { id: 'its id or name' },
    names: { id: GUARDRAILS },
    lists: { assignments: 'assignments found' },
  },
)

const WORDS: Fields = {
  options: [
    new Option('--name <name>', 'what it is called'),
    new Option(
      '--from <file>',
      'a JSON file with fields as the API takes them; options override them',
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
    'these models only, comma-separated; none for all',
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
    'only calls from these ingress regions: global, europe, us',
    LIST,
  ),
  fill('mcp', '--mcp <json>', 'what may be used at /mcp: servers, tools, arguments; or none', {
    read: (text: string) => (text === 'none' ? null : parseRule(text)),
  }),
  fillSwitches(
    ZDR,
    '--zdr <groups>',
    'zero data retention for the models of exactly these: anthropic, openai, google, xai, ' +
      'other; or all',
  ),
  fillSwitches(
    TRAINING,
    '--training <kinds>',
    'exactly these models may train on prompts: free, paid',
  ),
  fill(
    'content_filter_builtins',
    '--filters <list>',
    'built-in content filters and what they do: email=redact,phone=block',
    { read: (text: string) => splitList(text)?.map(parseFilter) ?? null },
  ),
  fill('filter_output', '--filter-output', 'scan the output of models too'),
  fill('limit_usd', '--limit <usd>', 'budget in USD, or none', NUMBER_OR_NULL),
  fill('reset_interval', '--reset <interval>', 'daily, weekly, monthly, or none', OR_NULL),
  fill(
    'requests_per_minute',
    '--requests-per-minute <n>',
    'calls per minute, or none',
    NUMBER_OR_NULL,
  ),
  fill(
    'tokens_per_minute',
    '--tokens-per-minute <n>',
    'tokens per minute, or none',
    NUMBER_OR_NULL,
  ),
  fill(
    'concurrent_requests',
    '--concurrent-requests <n>',
    'calls that run at once, or none',
    NUMBER_OR_NULL,
  ),
  fill('include_byok_in_budgets', '--byok-in-budgets', 'count spending through own provider keys'),
]
const NEW = [...RULES, fillWorkspace('its workspace, by id or slug')]
const CHANGE = [
  ...RULES,
  offer('--no-byok-in-budgets', 'do not count spending through own provider keys'),
  offer('--no-filter-output', 'do not scan the output of models'),
]
const LIST_FIELDS = [...PAGE, fillWorkspace('another workspace, by id or slug')]
const ASSIGNMENT_FIELDS = [...PAGE, offer('--members', 'members instead of keys')]
const ASSIGNEES = [
  fillAllNamed('key_hashes', '--keys <keys>', 'API keys, comma-separated', KEYS),
  fillAllNamed('member_user_ids', '--members <members>', 'members, comma-separated', MEMBERS),
]

/** `gateway guardrails`: rules for calls, by the same functions and checks as over HTTP. */
export const createGuardrailsCommand = () =>
  defineNoun(
    'guardrails',
    'rules for calls: where they may go, what they may cost, what they may contain',
    [
      verb(
        'create',
        'create a guardrail, which has no effect until it is assigned',
        NEW,
        core => core.create,
      ).printAs(({ data }) =>
        printFields(Object.fromEntries(Object.entries(data).filter(([, value]) => isSet(value)))),
      ),
      verb('list', 'list the guardrails of a workspace', LIST_FIELDS, core => core.list).printAs(
        {
          NAME: guardrail => guardrail.name,
          BUDGET: ({ limit_usd, reset_interval }) =>
            limit_usd === null ? null : `${formatDollars(limit_usd)} ${reset_interval}`,
          SPENT: ({ spent_usd }) => renderSpent(spent_usd),
          ID: guardrail => guardrail.id,
        },
        describeOthers(({ memory: { guardrails } }) => guardrails.values().toArray()),
      ),
      verb('get <id>', 'show a guardrail', [], core => core.get),
      verb(
        'update <id>',
        'change a guardrail. The first change of a workspace’s default one creates it',
        CHANGE,
        core => core.update,
      ),
      verb('delete <id>', 'delete a guardrail', [], core => core.delete).printAs(printDeleted),
      assignmentVerb(
        'assign <id>',
        'assign a guardrail to keys or members, replacing the one that they have',
        ASSIGNEES,
        (core, flags: Assignees) => (namesKeys(flags) ? core.assignKeys : core.assignMembers),
      ).printAs(({ assigned_count }) => print(`Assigned ${assigned_count}`)),
      assignmentVerb(
        'unassign <id>',
        'unassign a guardrail from keys or members',
        ASSIGNEES,
        (core, flags: Assignees) => (namesKeys(flags) ? core.unassignKeys : core.unassignMembers),
      ).printAs(({ unassigned_count }) => print(`Unassigned ${unassigned_count}`)),
      assignmentsVerb(
        'assignments [id]',
        'list keys or members with a guardrail of their own: this one, or any',
        ASSIGNMENT_FIELDS,
        (core, { members }: { members?: boolean }) =>
          withInput(core.AssignmentQuery, async (gateway, actor, id, page) =>
            members
              ? core.listMemberAssignments(gateway, actor, page, id)
              : core.listKeyAssignments(gateway, actor, page, id),
          ),
      ).printAs(({ data }, { flags: { members }, printList }) =>
        printList(
          members
            ? ['MEMBER', 'GUARDRAIL', 'SPENT']
            : ['KEY', 'LABEL', 'GUARDRAIL', 'SPENT', 'HASH'],
          data.map(one =>
            'user_id' in one
              ? [one.user_id, one.guardrail_id, renderSpent(one.spent_usd)]
              : [
                  one.key_name,
                  one.key_label,
                  one.guardrail_id,
                  renderSpent(one.spent_usd),
                  one.key_hash,
                ],
          ),
        ),
      ),
    ],
  )

const isSet = (value: unknown): boolean => value !== null && value !== undefined

/** Renders what is spent of a budget; nothing without one. */
const renderSpent = (usd: number | undefined): string | null =>
  usd === undefined ? null : formatDollars(usd)

type Assignees = { keys?: string; members?: string }

/** Returns whether a line names keys and not members. Throws 400 unless it names one of the two. */
function namesKeys({ keys, members }: Assignees): boolean {
  if ((keys === undefined) === (members === undefined))
    throw invalid('assign: expected --keys or --members, one of the two')
  return keys !== undefined
}

/** The fields that each word of an option switches. */
type Switches = Record<string, string[]>

/** Declares an option that switches on the fields of its words, and off all others. */
function fillSwitches(switches: Switches, flags: string, description: string): Fields {
  const option = new Option(flags, description)
  const name = option.attributeName()
  const read = (options: Flags) =>
    options[name] === undefined ? {} : parseSwitches(switches, `--${name}`, String(options[name]))
  return { options: [option], read }
}

// `all` stands for every word and `none` for no word.
function parseSwitches(switches: Switches, flag: string, text: string): Record<string, boolean> {
  const words = text === 'all' ? Object.keys(switches) : (splitList(text) ?? [])
  if (words.some(word => !Object.hasOwn(switches, word)))
    throw invalid(`${flag}: expected ${Object.keys(switches).join(', ')}, all or none`)
  const values = Object.entries(switches).flatMap(([word, fields]) =>
    fields.map(field => [field, words.includes(word)]),
  )
  return Object.fromEntries(values)
}

function parseFilter(text: string): { slug: string; action: string } {
  const [slug = '', action = ''] = text.split('=')
  return { slug, action }
}

function parseRule(text: string): Record<string, unknown> {
  const rule = parseObject(text)
  if (!rule) throw invalid('--mcp: expected a JSON object, or none')
  return rule
}

async function readObject(file: string): Promise<Record<string, unknown>> {
  const text = await Bun.file(file)
    .text()
    .catch(() => undefined)
  const object = text === undefined ? undefined : parseObject(text)
  if (!object) throw invalid(`${file}: expected a file that holds a JSON object`)
  return object
}
