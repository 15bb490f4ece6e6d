import type { Explanation } from '../../../extensions/explain.ts'
import { RATE_FIELDS } from '../../../limits/rates.ts'
import type { Transcript } from '../../../observability/transcripts.ts'
import { getDefaultGuardrailId } from '../../../resources/default-guardrail.ts'
import { findNames } from '../../../resources/operation.ts'
import { openRemoteFeed } from '../../feed.ts'
import type { Remote } from '../../remote.ts'
import type {
  Budget,
  CallRecord,
  Change,
  KeyRate,
  KeyRecord,
  Money,
  PastExplanation,
  Source,
} from '../source.ts'
import { type QueryRows, readGroups, toBudgetRows } from './money.ts'
import { findOperation, PLACED, pickSecret, splitId } from './nouns.ts'

/** Changes that only the server's host can make. */
const AT_HOST: Record<string, string> = {
  'members create': 'Members are added',
  'members update': 'Members are renamed',
  'members deactivate': 'Members are deactivated',
  // The API lets inference keys alone make presets, and has nothing that changes them.
  'presets create': 'Presets are created',
  'presets update': 'Presets are disabled, enabled and archived',
  'credits create': 'Credits are added',
}

/**
 * Makes a change of a gateway elsewhere. Returns a text that is shown this once: a new key. Throws
 * a sentence for what its API has no request for, and what the gateway refuses it with.
 */
async function makeRemoteChange(remote: Remote, change: Change): Promise<string | null> {
  const { noun, verb, input } = change
  const { route } = await findOperation(noun, verb)
  if (!route) throw new Error(`${AT_HOST[`${noun} ${verb}`]} at the server's own host alone`)
  const values = splitId(change).map(encodeURIComponent)
  const path = findNames(route.path).reduce(
    (path, name, i) => path.replace(`:${name}`, () => values[i] ?? ''),
    route.path,
  )
  const body = route.options.body ? input : undefined
  return pickSecret(change, await remote.ask(route.method, path, body))
}

/**
 * Explains a finished call of a gateway elsewhere: its record and what is kept of its texts, asked
 * again as a dry run with the same key. Throws what the gateway refuses it with.
 */
async function explainRemoteCall(remote: Remote, id: string): Promise<PastExplanation> {
  const { rebuildRequest } = await import('../../../app/past-request.ts')
  const { findDialect } = await import('../../../translation/dialects/registry.ts')
  const call = await read<CallRecord>(remote, `/generation?id=${encodeURIComponent(id)}`)
  const content = await readInput(remote, id)
  const { dialect, body, unknown } = rebuildRequest(call, content)
  const debug = { dry_run: true, ...(call.key_hash === null ? {} : { key: call.key_hash }) }
  const explanation = await remote.ask('POST', findDialect(dialect).path, { ...body, debug })
  return { explanation: explanation as Explanation, unknown }
}

const read = async <Data>(remote: Remote, path: string): Promise<Data> =>
  ((await remote.ask('GET', path)) as { data: Data }).data

// Most gateways keep no texts, and say so with 404.
async function readInput(remote: Remote, id: string): Promise<Transcript['input'] | null> {
  try {
    const path = `/generation/content?id=${encodeURIComponent(id)}`
    return (await read<Pick<Transcript, 'input'>>(remote, path)).input
  } catch (thrown) {
    if ((thrown as { type?: unknown }).type === 'not_found') return null
    throw thrown
  }
}

const KEYS = '/keys?include_disabled=true'

/** How many past calls the list begins with. */
const MOST_PAST = 100

/** How many rows of a noun are read: more than a person looks through. */
const MOST_ROWS = 20_000

/** Reads the names that a record of the version before has in place of ours. */
function readOldNames(record: CallRecord): CallRecord {
  const { usageSource, contentFilters, isPriced } = record as unknown as Record<string, unknown>
  const named = { usage_source: usageSource, content_filters: contentFilters, is_priced: isPriced }
  return { ...(named as Partial<CallRecord>), ...record }
}

/** A guardrail, as far as rates go. What it does not limit is absent. */
type ShownGuardrail = { id: string; name: string } & Partial<
  Record<(typeof RATE_FIELDS)[number], number>
>

/** To whom a guardrail is assigned. */
interface Assigned {
  key_hash?: string
  user_id?: string
}

/** Whose rates a key has, in the order in which they are looked at. */
const SCOPES = ['workspace', 'member', 'key'] as const

/** The answer of a query over all calls. */
interface Rows {
  data: { data: Record<string, unknown>[] }
}

/** Opens a gateway elsewhere: all of it over its API, as far as its key may. */
export function openRemoteSource(remote: Remote): Source {
  const read = async <Data>(path: string) =>
    ((await remote.ask('GET', path)) as { data: Data }).data
  const readAll = async <Row>(path: string): Promise<Row[]> => {
    const rows: Row[] = []
    for (;;) {
      const page = await read<Row[]>(
        `${path}${path.includes('?') ? '&' : '?'}offset=${rows.length}`,
      )
      rows.push(...page)
      if (page.length === 0 || rows.length >= MOST_ROWS) return rows
    }
  }
  const listBudgets = async (): Promise<Budget[]> => {
    const workspaces = await readAll<{ id: string }>('/workspaces')
    const lists = workspaces.map(({ id }) => read<Budget[]>(`/workspaces/${id}/budgets`))
    return (await Promise.all(lists)).flat()
  }
  const readEverywhere = async (path: string): Promise<object[]> => {
    const workspaces = await readAll<{ id: string }>('/workspaces')
    const lists = workspaces.map(({ id }) => readAll<object>(`${path}?workspace_id=${id}`))
    return (await Promise.all(lists)).flat()
  }
  /** Finds the guardrails that a key has by itself, by its maker or by its workspace. */
  const readRates = async (key: KeyRecord): Promise<KeyRate[]> => {
    const guardrails = (await readEverywhere('/guardrails')) as ShownGuardrail[]
    const rated = guardrails.filter(one => RATE_FIELDS.some(field => one[field] !== undefined))
    const isAssigned = async (id: string, to: 'keys' | 'members', name: string) =>
      (await readAll<Assigned>(`/guardrails/${id}/assignments/${to}`)).some(
        ({ key_hash, user_id }) => name === (key_hash ?? user_id),
      )
    const found = rated.map(async ({ id, name, ...fields }) => {
      const scopes = {
        workspace: id === getDefaultGuardrailId(key.workspace_id),
        member: await isAssigned(id, 'members', key.creator_user_id ?? ''),
        key: await isAssigned(id, 'keys', key.hash),
      }
      const limits = Object.fromEntries(RATE_FIELDS.map(field => [field, fields[field] ?? null]))
      return SCOPES.filter(scope => scopes[scope]).map(
        scope => ({ scope, name, ...limits }) as KeyRate,
      )
    })
    return (await Promise.all(found)).flat()
  }
  const refuse = (what: string) => async () => {
    throw new Error(`${what} at the server's own host alone`)
  }
  return {
    name: remote.url,
    openFeed: () => openRemoteFeed(remote, MOST_PAST),
    // The feed itself begins with them.
    listCalls: async () => [],
    getCall: async id =>
      readOldNames(await read<CallRecord>(`/generation?id=${encodeURIComponent(id)}`)),
    explainCall: id => explainRemoteCall(remote, id),
    async readMoney(): Promise<Money> {
      const query: QueryRows = async body => {
        const { data } = (await remote.ask('POST', '/analytics/query', body)) as Rows
        return data.data
      }
      const groups = await readGroups(query, new Date())
      const workspaces = await readAll<{ id: string; name: string }>('/workspaces')
      const findName = (id: string) => workspaces.find(one => one.id === id)?.name ?? id
      return {
        credits: await read<Money['credits']>('/credits').catch(() => null),
        keys: await readAll<KeyRecord>(KEYS),
        budgets: toBudgetRows(await listBudgets(), groups.workspace ?? [], findName),
        groups,
      }
    },
    readRates,
    list: async noun => {
      if (noun === 'budgets') return listBudgets()
      const { route } = await findOperation(noun, 'list')
      if (!route) throw new Error(`${noun} are listed at the server's own host alone`)
      if (PLACED.has(noun)) return readEverywhere(route.path)
      return readAll<object>(noun === 'keys' ? KEYS : route.path)
    },
    change: change => makeRemoteChange(remote, change),
    rest: refuse('Endpoints are made to rest'),
    wake: refuse('Endpoints are woken'),
  }
}
