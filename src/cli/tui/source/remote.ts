import { openRemoteFeed } from '../../feed.ts'
import type { Remote } from '../../remote.ts'
import type { Budget, CallRecord, KeyRecord, Money, Noun, Source } from '../source.ts'
import { type QueryRows, readGroups, toBudgetRows } from './money.ts'
import { makeRemoteChange } from './remote/changes.ts'
import { explainRemoteCall } from './remote/explain.ts'

/** The path of each noun's list; null for what only the terminal of the server's host lists. */
const PATHS: Record<Noun, string | null> = {
  keys: '/keys?include_disabled=true',
  workspaces: '/workspaces',
  members: '/organization/members',
  budgets: '/workspaces',
  presets: '/presets',
  guardrails: '/guardrails',
  byok: '/byok',
  destinations: '/observability/destinations',
  credits: null,
  audit: '/audit',
}

/** The nouns whose list is that of one workspace. */
const PLACED = new Set<Noun>(['guardrails', 'byok', 'destinations'])

/** How many past calls the list begins with. */
const MOST_PAST = 100

/** How many rows of a noun are read: more than a person looks through. */
const MOST_ROWS = 20_000

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
  const refuse = (what: string) => async () => {
    throw new Error(`${what} at the server's own host alone`)
  }
  return {
    name: remote.url,
    openFeed: () => openRemoteFeed(remote, MOST_PAST),
    // The feed itself begins with them.
    listCalls: async () => [],
    getCall: id => read<CallRecord>(`/generation?id=${encodeURIComponent(id)}`),
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
        keys: await readAll<KeyRecord>(PATHS.keys ?? ''),
        budgets: toBudgetRows(await listBudgets(), groups.workspace ?? [], findName),
        groups,
      }
    },
    list: async noun => {
      const path = PATHS[noun]
      if (path === null) throw new Error(`${noun} are listed at the server's own host alone`)
      if (noun === 'budgets') return listBudgets()
      return PLACED.has(noun) ? readEverywhere(path) : readAll<object>(path)
    },
    change: change => makeRemoteChange(remote, change),
    rest: refuse('Endpoints are made to rest'),
    wake: refuse('Endpoints are woken'),
  }
}
