import { buildCallEntries, buildKey, ENTER, entry, FakeSource, openScreen } from './tui.tsx'

/** The views that the docs show, by name: what is typed to reach them, and what they show then. */
const SCREENS: Record<string, { keys: string[]; shows: string; rows: number }> = {
  calls: { keys: [], shows: '6 shown', rows: 13 },
  call: { keys: [ENTER], shows: 'session-9', rows: 30 },
  endpoints: { keys: ['2'], shows: '2 endpoints', rows: 8 },
  money: { keys: ['3'], shows: 'Credits', rows: 15 },
  keys: { keys: ['4'], shows: '3 keys', rows: 9 },
  overview: { keys: ['5'], shows: 'Alarms', rows: 16 },
  more: { keys: ['6'], shows: 'workspaces', rows: 14 },
  list: { keys: ['6', ENTER], shows: 'workspaces: 2', rows: 8 },
  help: { keys: ['?'], shows: 'this help', rows: 32 },
}

const WIDTH = 98

/** Draws every view of a gateway that is made up, as text by its name. The same each time. */
export async function drawScreens(): Promise<Record<string, string>> {
  const drawn: Record<string, string> = {}
  for (const [name, { keys, shows, rows }] of Object.entries(SCREENS)) {
    using screen = openScreen(buildSource(), { columns: WIDTH, rows })
    // The last second that is told: then everything is.
    await screen.see('20 calls/s · 6 shown')
    for (const key of keys) {
      await screen.type(key)
      await screen.see('6 shown', false)
    }
    const lines = (await screen.see(shows)).split('\n')
    drawn[name] = lines.map(line => line.trimEnd()).join('\n')
  }
  return drawn
}

/** Replaces the pictures in a document: each stands in a block after a comment with its name. */
export const replaceScreens = (text: string, drawn: Record<string, string>): string =>
  text.replace(
    /(<!-- screen: (\w+) -->\n\n```text\n)[\s\S]*?(\n```)/g,
    (_, begin: string, name: string, end: string) => begin + (drawn[name] ?? '') + end,
  )

function buildSource(): FakeSource {
  const source = new FakeSource()
  source.keys.push(buildKey('notebook', { usage_daily: 0, usage_weekly: 0.2, usage_monthly: 0.9 }))
  source.rows = {
    workspaces: [
      { id: 'a1f0', name: 'Default', slug: 'default', created_by: 'ada' },
      { id: 'b2e9', name: 'Research', slug: 'research', created_by: 'ada' },
    ],
  }
  source.record = RECORD
  source.tell(
    ...buildCallEntries('gen-1', { key: 'batch' }),
    ...buildCallEntries('gen-2', { model: 'acme/large', key: 'notebook' }),
    ...buildCallEntries('gen-3', { key: 'batch' }),
    entry('call.refused', {
      ...{ id: 'req-4', status: 402, model: 'acme/large', key_name: 'laptop' },
      message: 'Key limit exceeded (total limit)',
    }),
    ...buildCallEntries('gen-5', { model: 'acme/large', key: 'notebook' }),
    ...buildCallEntries('gen-6'),
    entry('circuit.opened', {
      ...{ endpoint: 'acme/small flaky/m', reason: 'failures', seconds_left: 42 },
    }),
    entry('limit.near', { account: 'key', name: 'laptop', period: 'daily', share: 0.9 }),
    ...[12, 19, 8, 25, 31, 20].map(buildSecond),
  )
  return source
}

const buildSecond = (finished: number) =>
  entry('state', {
    ...{ running_calls: 3, draining: false, memory_bytes: 100 * 1024 * 1024, milliseconds: 1_000 },
    ...{ finished, failed: finished % 3, refused: finished % 2, tokens_prompt: 100 },
    ...{ tokens_completion: finished * 40, cost: 0.01 },
    ...{ first_part_p50: 100 + finished, first_part_p95: 400 + finished },
    endpoints: ['flaky', 'solid'].map(provider => ({
      ...{ endpoint: `acme/small ${provider}/m`, provider, model: 'acme/small' },
      cooldown: provider === 'flaky' ? { reason: 'failures' as const, seconds_left: 42 } : null,
      ...{ is_probing: false, succeeded: 9, failed: provider === 'flaky' ? 3 : 0 },
      ...{ latency_p50: 100, latency_p95: 400, throughput_p50: 55 },
    })),
  })

const RECORD = {
  ...{ request_id: 'req-6', created_at: '2026-03-04T05:06:07.000Z', model: 'acme/small' },
  ...{ provider_name: 'solid', total_cost: 0.0123, tokens_prompt: 10, tokens_completion: 50 },
  ...{ finish_reason: 'stop', latency: 20, generation_time: 1_020, session_id: 'session-9' },
  provider_responses: ['flaky', 'solid'].map(provider => ({
    ...{ provider_name: provider, model_permaslug: 'm', endpoint_id: `acme/small ${provider}/m` },
    ...{ is_byok: false, latency: 12, status: provider === 'flaky' ? 503 : 200, request_id: null },
    error:
      provider === 'flaky'
        ? { type: 'provider_overloaded' as const, code: null, message: 'Too many requests' }
        : null,
  })),
}
