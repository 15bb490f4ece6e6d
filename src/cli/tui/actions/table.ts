import { parseLimit } from '../models/keys.ts'
import { parseAmount } from '../models/money.ts'
import type { Change, Noun } from '../source.ts'
import { formatUsd } from '../text.ts'
import { type Asking, type Found, identifyRow, nameRow, type Plan, type Row } from './asking.ts'

/** What can be done to what a noun lists. */
export const ACTIONS = [
  'create',
  'rename',
  'disable',
  'limit',
  'remove',
  'assign',
  'unassign',
] as const
export type NounAction = (typeof ACTIONS)[number]

/** Asks for what an action needs. Throws a sentence for what it cannot take. */
type Prepare = (row: Row, asking: Asking) => Plan | Promise<Plan>

/** Each action of a noun; a sentence where there is none. */
type Actions = Record<NounAction, Prepare | string>

const formatLimit = (usd: unknown): string => (typeof usd === 'number' ? formatUsd(usd) : 'none')

function readLimit(text: string): number | null {
  const limit = parseLimit(text)
  if (limit === undefined) throw new Error('Expected an amount such as 5 or 0.50')
  return limit
}

const change = (noun: Noun, verb: string, id: string, input: object): Change => ({
  noun,
  verb,
  id,
  input,
})

/** Changes fields of a row. */
const update = (noun: Noun, row: Row, input: object): Change => ({
  ...change(noun, 'update', identifyRow(noun, row), input),
  ...(typeof row.workspace_id === 'string' ? { workspace_id: row.workspace_id } : {}),
})

const renames =
  (noun: Noun): Prepare =>
  async (row, { askName }) => {
    const before = nameRow(row)
    const name = await askName(`New name of ${before}`, String(row.name ?? ''))
    return {
      question: `Rename ${before} to ${name}?`,
      changes: [update(noun, row, { name })],
      done: `${before} is now ${name}`,
    }
  }

/** Switches a row off, or on again. `read` tells whether it is off, `write` what switches it. */
const switches =
  (noun: Noun, isOff: (row: Row) => boolean, write: (off: boolean) => object): Prepare =>
  row => {
    const off = isOff(row)
    const name = nameRow(row)
    return {
      question: `${off ? 'Enable' : 'Disable'} ${name}?`,
      changes: [update(noun, row, write(!off))],
      done: `${name} is ${off ? 'enabled' : 'disabled'}`,
    }
  }

const removes =
  (noun: Noun, consequence = ''): Prepare =>
  row => ({
    question: `Delete ${nameRow(row)}${consequence}? This cannot be undone`,
    changes: [change(noun, 'delete', identifyRow(noun, row), {})],
    done: `${nameRow(row)} is deleted`,
  })

const listNames = (found: Found[]): string => found.map(({ name }) => name).join(', ')

const pickIds = (found: Found[], noun: Noun): string[] =>
  found.filter(one => one.noun === noun).map(({ id }) => id)

/** Says for which keys alone a row is. */
const assignsKeys =
  (noun: Noun, field: string): Prepare =>
  async (row, { ask, find }) => {
    const found = await find(await ask(`For which keys alone is ${nameRow(row)}, by name`), 'keys')
    return {
      question: `Use ${nameRow(row)} for ${listNames(found)} alone?`,
      changes: [update(noun, row, { [field]: pickIds(found, 'keys') })],
      done: `${nameRow(row)} is for ${listNames(found)} alone`,
    }
  }

const unassignsKeys =
  (noun: Noun, field: string): Prepare =>
  row => ({
    question: `Use ${nameRow(row)} for all keys?`,
    changes: [update(noun, row, { [field]: null })],
    done: `${nameRow(row)} is for all keys`,
  })

/** Assigns a guardrail to keys and members, or takes it away from them. */
const assignsGuardrail =
  (verb: 'assign' | 'unassign'): Prepare =>
  async (row, { ask, find }) => {
    const [word, done] = verb === 'assign' ? ['to', 'assigned to'] : ['from', 'taken from']
    const text = await ask(`${verb} ${nameRow(row)} ${word} which keys or members, by name`)
    const found = await find(text, 'keys', 'members')
    return {
      question: `${verb === 'assign' ? 'Assign' : 'Take'} ${nameRow(row)} ${word} ${listNames(found)}?`,
      changes: buildAssignments(verb, String(row.id), found),
      done: `${nameRow(row)} is ${done} ${listNames(found)}`,
    }
  }

function buildAssignments(verb: 'assign' | 'unassign', id: string, found: Found[]): Change[] {
  const key_hashes = pickIds(found, 'keys')
  const member_user_ids = pickIds(found, 'members')
  return [
    ...(key_hashes.length > 0 ? [change('guardrails', `${verb}Keys`, id, { key_hashes })] : []),
    ...(member_user_ids.length > 0
      ? [change('guardrails', `${verb}Members`, id, { member_user_ids })]
      : []),
  ]
}

/** Gives a key a guardrail of its own, or takes it away. */
const assignsToKey =
  (verb: 'assign' | 'unassign'): Prepare =>
  async (row, { ask, find }) => {
    const name = nameRow(row)
    const [found] = await find(
      await ask(`Which guardrail, by name, ${verb === 'assign' ? 'for' : 'from'} ${name}`),
      'guardrails',
    )
    const key = { noun: 'keys' as const, id: String(row.hash), name }
    return {
      question:
        verb === 'assign'
          ? `Give ${name} the guardrail ${found.name}?`
          : `Take ${found.name} from ${name}?`,
      changes: buildAssignments(verb, found.id, [key]),
      done: verb === 'assign' ? `${name} has ${found.name}` : `${name} has lost ${found.name}`,
    }
  }

/** Adds members to a workspace, or removes them from it. */
const placesMembers =
  (verb: 'add' | 'remove'): Prepare =>
  async (row, { ask, find }) => {
    const [word, done] = verb === 'add' ? ['to', 'added to'] : ['from', 'removed from']
    const text = await ask(`${verb} which members ${word} ${nameRow(row)}, by address`)
    const found = await find(text, 'members')
    return planPlacement(
      verb,
      String(row.id),
      found,
      `${listNames(found)} ${word} ${nameRow(row)}`,
      `${listNames(found)}: ${done} ${nameRow(row)}`,
    )
  }

/** Adds a member to a workspace, or removes them from it. */
const placesMember =
  (verb: 'add' | 'remove'): Prepare =>
  async (row, { ask, find }) => {
    const [word, done] = verb === 'add' ? ['to', 'added to'] : ['from', 'removed from']
    const text = await ask(`${verb} ${nameRow(row)} ${word} which workspace, by name`)
    const [found] = await find(text, 'workspaces')
    const member = { noun: 'members' as const, id: String(row.id), name: nameRow(row) }
    return planPlacement(
      verb,
      found.id,
      [member],
      `${nameRow(row)} ${word} ${found.name}`,
      `${nameRow(row)}: ${done} ${found.name}`,
    )
  }

const planPlacement = (
  verb: 'add' | 'remove',
  id: string,
  found: Found[],
  what: string,
  done: string,
): Plan => ({
  question: `${verb === 'add' ? 'Add' : 'Remove'} ${what}?`,
  changes: [change('members', verb, id, { user_ids: pickIds(found, 'members') })],
  done,
})

/** Sets a budget: nothing as its amount deletes it. */
function planBudget(budget: string, id: string, text: string): Plan {
  const limit = readLimit(text)
  return limit === null
    ? {
        question: `Delete ${budget}?`,
        changes: [change('budgets', 'delete', id, {})],
        done: `Deleted: ${budget}`,
      }
    : {
        question: `Set ${budget} to ${formatUsd(limit)}?`,
        changes: [change('budgets', 'set', id, { limit_usd: limit })],
        done: `${formatUsd(limit)} is now ${budget}`,
      }
}

const nameBudget = ({ reset_interval }: Row): string => `the ${reset_interval ?? 'lifetime'} budget`

const AMOUNT = 'in USD, or nothing for none'
const INTERVALS = 'daily, weekly, monthly or lifetime'

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('Expected JSON such as {"url":"https://example.com/hook"}')
  }
}

const FINAL = 'Credits are never changed: n adds others, also below 0 to correct'

/** What can be done to what each noun lists, by the same functions as its command. */
export const NOUN_ACTIONS: Record<Noun, Actions> = {
  keys: {
    async create(_, { ask, askName }) {
      const name = await askName('Name of the new key')
      const limit = readLimit(await ask(`Its limit ${AMOUNT}`))
      return {
        question: `Create the key ${name}${limit === null ? '' : ` with a limit of ${formatUsd(limit)}`}?`,
        changes: [change('keys', 'create', '', limit === null ? { name } : { name, limit })],
        done: `${name} is created`,
      }
    },
    rename: renames('keys'),
    disable: switches(
      'keys',
      ({ disabled }) => disabled === true,
      disabled => ({ disabled }),
    ),
    async limit(row, { ask }) {
      const name = nameRow(row)
      const limit = readLimit(await ask(`New limit of ${name} ${AMOUNT}`, String(row.limit ?? '')))
      return {
        question: `Change the limit of ${name} from ${formatLimit(row.limit)} to ${formatLimit(limit)}?`,
        changes: [update('keys', row, { limit })],
        done: `The limit of ${name} is changed`,
      }
    },
    remove: removes('keys'),
    assign: assignsToKey('assign'),
    unassign: assignsToKey('unassign'),
  },
  workspaces: {
    async create(_, { askName }) {
      const name = await askName('Name of the new workspace')
      const slug = await askName('Its name in URLs', toSlug(name))
      return {
        question: `Create the workspace ${name} (${slug})?`,
        changes: [change('workspaces', 'create', '', { name, slug })],
        done: `${name} is created`,
      }
    },
    rename: renames('workspaces'),
    disable: 'A workspace cannot be disabled: its keys can, and a budget stops it',
    async limit(row, { ask }) {
      const interval = await ask(
        `The budget of ${nameRow(row)} for which time: ${INTERVALS}`,
        'monthly',
      )
      const text = await ask(`Its ${interval} budget ${AMOUNT}`)
      return planBudget(`the ${interval} budget of ${nameRow(row)}`, `${row.id} ${interval}`, text)
    },
    remove: removes('workspaces', ' with everything in it'),
    assign: placesMembers('add'),
    unassign: placesMembers('remove'),
  },
  members: {
    async create(_, { ask }) {
      const email = await ask('E-mail address of the new member')
      return {
        question: `Add ${email}?`,
        changes: [change('members', 'create', '', { email })],
        done: `${email} is added`,
      }
    },
    async rename(row, { ask }) {
      const first_name = await ask(`First name of ${nameRow(row)}`, String(row.first_name ?? ''))
      const last_name = await ask('Last name', String(row.last_name ?? ''))
      return {
        question: `Call ${nameRow(row)} ${first_name} ${last_name}?`,
        changes: [update('members', row, { first_name, last_name })],
        done: `${nameRow(row)} is ${first_name} ${last_name}`,
      }
    },
    disable: row => ({
      question: `Deactivate ${nameRow(row)}, and disable every key that they created?`,
      changes: [change('members', 'deactivate', String(row.id), {})],
      done: `${nameRow(row)} is deactivated; gateway members update --activate brings them back`,
    }),
    limit: 'A member has no limit of their own: a guardrail that is assigned to them has',
    remove: 'Members are never deleted: d deactivates one',
    assign: placesMember('add'),
    unassign: placesMember('remove'),
  },
  budgets: {
    async create(_, { ask, find }) {
      const [found] = await find(await ask('The budget of which workspace, by name'), 'workspaces')
      const interval = await ask(`For which time: ${INTERVALS}`, 'monthly')
      return planBudget(
        `the ${interval} budget of ${found.name}`,
        `${found.id} ${interval}`,
        await ask('Its amount in USD'),
      )
    },
    rename: 'A budget is called after its workspace and its time',
    disable: 'A budget cannot be disabled: x deletes it',
    async limit(row, { ask }) {
      const id = identifyRow('budgets', row)
      const text = await ask(
        `The ${row.reset_interval ?? 'lifetime'} budget ${AMOUNT}`,
        String(row.limit_usd ?? ''),
      )
      return planBudget(nameBudget(row), id, text)
    },
    remove: row => planBudget(nameBudget(row), identifyRow('budgets', row), ''),
    assign: 'A budget is that of its workspace',
    unassign: 'A budget is that of its workspace',
  },
  presets: {
    async create(_, { ask }) {
      const slug = await ask('Slug of the preset; one that exists gets another version')
      const model = await ask('Its model')
      return {
        question: `Save the preset ${slug} with ${model}?`,
        changes: [change('presets', 'create', slug, { model })],
        done: `${slug} is saved; gateway presets create --body gives it more`,
      }
    },
    rename: 'Calls name a preset by its slug: it cannot change',
    disable: switches(
      'presets',
      ({ status }) => status !== 'active',
      off => ({ status: off ? 'disabled' : 'active' }),
    ),
    limit: 'A preset has no limit: keys, guardrails and workspaces have',
    remove: row => ({
      question: `Archive ${nameRow(row)}? Its versions stay`,
      changes: [update('presets', row, { status: 'archived' })],
      done: `${nameRow(row)} is archived`,
    }),
    assign: 'A preset is for whatever call names it',
    unassign: 'A preset is for whatever call names it',
  },
  guardrails: {
    async create(_, { askName }) {
      const name = await askName('Name of the new guardrail')
      return {
        question: `Create ${name}? It has no effect until t assigns it`,
        changes: [change('guardrails', 'create', '', { name })],
        done: `${name} is created; gateway guardrails update gives it rules`,
      }
    },
    rename: renames('guardrails'),
    disable: 'A guardrail cannot be disabled: u takes it from keys and members',
    async limit(row, { ask }) {
      const limit_usd = readLimit(
        await ask(`The budget of ${nameRow(row)} ${AMOUNT}`, String(row.limit_usd ?? '')),
      )
      const reset_interval =
        limit_usd === null
          ? null
          : readInterval(
              await ask(
                'For which time: daily, weekly, monthly or none',
                String(row.reset_interval ?? 'monthly'),
              ),
            )
      return {
        question: `Change the budget of ${nameRow(row)} from ${formatLimit(row.limit_usd)} to ${formatLimit(limit_usd)} ${reset_interval ?? ''}?`,
        changes: [update('guardrails', row, { limit_usd, reset_interval })],
        done: `The budget of ${nameRow(row)} is changed`,
      }
    },
    remove: removes('guardrails'),
    assign: assignsGuardrail('assign'),
    unassign: assignsGuardrail('unassign'),
  },
  byok: {
    async create(_, { ask, askSecret }) {
      const provider = await ask('The provider of the key, by its slug')
      const name = await ask('Its name')
      const key = await askSecret('The provider’s key')
      return {
        question: `Use this key of ${key.length} characters at ${provider}?`,
        changes: [change('byok', 'create', '', { provider, name, key })],
        done: `${name} is used at ${provider}`,
      }
    },
    rename: renames('byok'),
    disable: switches(
      'byok',
      ({ disabled }) => disabled === true,
      disabled => ({ disabled }),
    ),
    limit: 'A provider’s key has no limit here: m limits the keys that may use it',
    remove: removes('byok'),
    assign: assignsKeys('byok', 'allowed_api_key_hashes'),
    unassign: unassignsKeys('byok', 'allowed_api_key_hashes'),
  },
  destinations: {
    async create(_, { ask, askName, askSecret }) {
      const name = await askName('Name of the new destination')
      const type = await ask('Its type, as docs/destinations.md lists them', 'webhook')
      const config = readJson(await askSecret('Its config in JSON, such as {"url":"https://…"}'))
      return {
        question: `Tell calls to ${name} (${type})?`,
        changes: [change('destinations', 'create', '', { name, type, config })],
        done: `${name} is told`,
      }
    },
    rename: renames('destinations'),
    disable: switches(
      'destinations',
      ({ enabled }) => enabled === false,
      off => ({ enabled: !off }),
    ),
    limit: 'A destination has no limit: it costs nothing',
    remove: removes('destinations', ' with what waits for it'),
    assign: assignsKeys('destinations', 'api_key_hashes'),
    unassign: unassignsKeys('destinations', 'api_key_hashes'),
  },
  alerts: {
    async create(_, { ask, askName, askSecret }) {
      const name = await askName('Name of the new alert')
      const cause = await ask('Its cause, as docs/alerts.md lists them', 'limit_near')
      const to = readJson(
        await askSecret('Who is told, in JSON: {"type":"slack","url":"https://…"}'),
      )
      return {
        question: `Tell ${name} of ${cause}?`,
        changes: [change('alerts', 'create', '', { name, cause, to })],
        done: `${name} is told`,
      }
    },
    rename: renames('alerts'),
    disable: switches(
      'alerts',
      ({ disabled }) => disabled === true,
      disabled => ({ disabled }),
    ),
    limit: 'An alert has no limit: gateway alerts update changes its thresholds',
    remove: removes('alerts', ' with what it has not told yet'),
    assign: 'An alert is that of its workspace',
    unassign: 'An alert is that of its workspace',
  },
  credits: {
    async create(_, { ask }) {
      const amount = parseAmount(await ask('Credits to add in USD; below 0 to correct'))
      if (amount === undefined) throw new Error('Expected an amount such as 50 or -2.50')
      const note = await ask('A note about them, or nothing')
      return {
        question: `Add ${formatUsd(amount)} to the credits?`,
        changes: [change('credits', 'create', '', note === '' ? { amount } : { amount, note })],
        done: `${formatUsd(amount)} is added`,
      }
    },
    rename: FINAL,
    disable: FINAL,
    limit: FINAL,
    remove: FINAL,
    assign: FINAL,
    unassign: FINAL,
  },
  audit: Object.fromEntries(
    ACTIONS.map(action => [action, 'The audit trail is never changed']),
  ) as Actions,
}

const toSlug = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')

function readInterval(text: string): string | null {
  return text === 'none' || text === '' ? null : text
}
