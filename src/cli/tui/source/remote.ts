import { openRemoteFeed } from '../../feed.ts'
import type { Remote } from '../../remote.ts'
import type { CallRecord, KeyRecord, Money, Noun, Source } from '../source.ts'

/** The path of each noun's list; null for what only the terminal of the server's host lists. */
const PATHS: Record<Noun, string | null> = {
  workspaces: '/workspaces',
  members: '/organization/members',
  budgets: null,
  presets: '/presets',
  guardrails: '/guardrails',
  byok: '/byok',
  credits: null,
  audit: '/audit',
}

/** Opens a gateway elsewhere: all of it over its API, as far as its key may. */
export function openRemoteSource(remote: Remote): Source {
  const read = async <Data>(path: string) =>
    ((await remote.ask('GET', path)) as { data: Data }).data
  const listKeys = async () => {
    const keys: KeyRecord[] = []
    for (;;) {
      const page = await read<KeyRecord[]>(`/keys?include_disabled=true&offset=${keys.length}`)
      keys.push(...page)
      if (page.length === 0) return keys
    }
  }
  const refuse = (what: string) => async () => {
    throw new Error(`${what} at the server's own host alone`)
  }
  return {
    name: remote.url,
    openFeed: () => openRemoteFeed(remote),
    // The API has no list of calls: the view begins with the next one.
    listCalls: async () => [],
    getCall: id => read<CallRecord>(`/generation?id=${encodeURIComponent(id)}`),
    listKeys,
    createKey: async input => ((await remote.ask('POST', '/keys', input)) as { key: string }).key,
    updateKey: async (hash, change) => {
      await remote.ask('PATCH', `/keys/${hash}`, change)
    },
    readMoney: async (): Promise<Money> => ({
      credits: await read<Money['credits']>('/credits').catch(() => null),
      keys: await listKeys(),
      groups: {},
    }),
    listNoun: async noun => {
      const path = PATHS[noun]
      if (path === null) throw new Error(`${noun} are listed at the server's own host alone`)
      return read<object[]>(path)
    },
    rest: refuse('Endpoints are made to rest'),
    wake: refuse('Endpoints are woken'),
  }
}
