import { render } from 'ink-testing-library'
import { App } from '../../src/cli/tui/app.tsx'
import type { LiveCall } from '../../src/cli/tui/live.ts'
import type {
  CallRecord,
  Change,
  KeyRate,
  KeyRecord,
  Money,
  Noun,
  PastExplanation,
  Source,
} from '../../src/cli/tui/source.ts'
import type { ActivityEntry } from '../../src/extensions/activity/entries.ts'

const AT = '2026-03-04T05:06:07.000Z'

/** Builds an entry of the feed, at one time unless told else. */
export const entry = <Type extends ActivityEntry['type']>(
  type: Type,
  more: Partial<Extract<ActivityEntry, { type: Type }>> = {},
): ActivityEntry => ({ type, at: AT, ...more }) as never

/** The entries of a whole call: a plan, a failed attempt, another one, and its end. */
export const buildCallEntries = (id: string, more: { model?: string; key?: string } = {}) => {
  const { model = 'acme/small', key = 'laptop' } = more
  const at = (provider: string) => ({ id, model, provider, endpoint: `${model} ${provider}/m` })
  return [
    entry('call.opened', { id, models: [model], key_name: key, app: 'Notebook' }),
    entry('call.planned', {
      ...{ id, step: 1, strategy: 'direct', more: 0 },
      candidates: ['flaky', 'solid'].map(provider => ({
        ...at(provider),
        ...{ prompt_price: '0.00000015', completion_price: '0.0000006' },
        ...{ probability: provider === 'flaky' ? 0.75 : 0.25, cooling_down: false },
      })),
      dropped: [{ provider: 'dear', model, excluded_by: 'max_price', reason: 'too dear' }],
    }),
    entry('attempt.started', at('flaky')),
    entry('attempt.failed', {
      ...at('flaky'),
      ...{ status: 503, error_type: 'provider_overloaded', message: 'busy', latency: 12 },
    }),
    entry('attempt.started', at('solid')),
    entry('call.answering', { id, latency: 20 }),
    entry('call.finished', {
      ...{ id, model, status: 200, provider_name: 'solid', finish_reason: 'stop', attempts: 2 },
      ...{ latency: 20, generation_time: 1_020, tokens_prompt: 10, tokens_completion: 50 },
      ...{ total_cost: 0.0123, key_name: key, app: 'Notebook' },
    }),
  ]
}

export const buildKey = (name: string, more: Partial<KeyRecord> = {}): KeyRecord => ({
  ...{ hash: `hash-${name}`, name, label: `gw-${name}`, disabled: false, limit: null },
  ...{ limit_remaining: null, limit_reset: null, include_byok_in_limit: false, usage: 2 },
  ...{ usage_daily: 0.5, usage_weekly: 1, usage_monthly: 2, byok_usage: 0, byok_usage_daily: 0 },
  ...{ byok_usage_weekly: 0, byok_usage_monthly: 0, created_at: AT, updated_at: null },
  ...{ expires_at: null, creator_user_id: 'u', external_user: null, workspace_id: 'w' },
  ...more,
})

const EMPTY_RECORD = {
  ...{ provider_responses: [], steps: [], content_filters: [], native_tokens_prompt: 10 },
  ...{ native_tokens_cached: 2, native_tokens_completion: 50, native_tokens_reasoning: 7 },
  ...{ native_tokens_completion_images: 0, total_cost: 0.0123, usage_source: 'exact' },
  ...{ upstream_inference_cost: 0.01, is_byok: false, service_tier: null, session_id: null },
}

/** A source in memory: tests feed it, and read what was asked of it. */
export class FakeSource implements Source {
  name = '/var/lib/gateway'
  keys = [
    buildKey('laptop', { limit: 10, limit_remaining: 1 }),
    buildKey('batch', { created_at: '2026-03-01T00:00:00.000Z' }),
  ]
  records: LiveCall[] = []
  record: Partial<CallRecord> = {}
  rows: Partial<Record<Noun, object[]>> = {}
  readonly asked: unknown[] = []
  /** Why no server answers; null if one does. */
  silence: string | null = null
  #tell: ((entry: ActivityEntry | null) => void) | null = null
  readonly #waiting: (ActivityEntry | null)[] = []

  tell(...entries: (ActivityEntry | null)[]): void {
    this.#waiting.push(...entries)
    this.#tell?.(null)
  }

  openFeed = async () => {
    if (this.silence !== null) throw new Error(this.silence)
    const waiting = this.#waiting
    const wait = () =>
      new Promise<void>(resolve => {
        this.#tell = () => resolve()
      })
    async function* read() {
      for (;;) {
        const next = waiting.shift()
        if (next === null) return
        if (next) yield [JSON.stringify(next)]
        else await wait()
      }
    }
    return { batches: read(), close: () => this.tell(null) }
  }
  listCalls = async () => this.records
  getCall = async (id: string) => {
    this.asked.push(['getCall', id])
    return { id, ...EMPTY_RECORD, ...this.record } as never
  }
  explanation: PastExplanation | string = 'This call cannot be asked again'
  explainCall = async (id: string) => {
    this.asked.push(['explainCall', id])
    if (typeof this.explanation === 'string') throw new Error(this.explanation)
    return this.explanation
  }
  list = async (noun: Noun) => {
    const rows = noun === 'keys' ? this.keys : this.rows[noun]
    if (!rows) throw new Error(`${noun} cannot be listed`)
    return [...rows]
  }
  change = async (change: Change) => {
    this.asked.push(change)
    if (change.noun !== 'keys') return null
    if (change.verb === 'create') return 'gw-v1-secret'
    this.keys = this.keys.map(key => (key.hash === change.id ? { ...key, ...change.input } : key))
    return null
  }
  readMoney = async (): Promise<Money> => ({
    credits: { total_credits: 100, total_usage: 25 },
    keys: this.keys,
    budgets: [{ name: 'Research daily', today: 9, week: 9, month: 9, limit: 9, spent: 9 }],
    groups: { model: [{ name: 'acme/small', today: 1, week: 2, month: 3 }] },
  })
  rates: KeyRate[] = []
  readRates = async () => this.rates
  rest = async (endpoint: string, seconds: number) =>
    void this.asked.push(['rest', endpoint, seconds])
  wake = async (endpoint: string) => void this.asked.push(['wake', endpoint])
}

export const ESCAPE = '\u001b'
export const ENTER = '\r'

/** The screen of a source. */
export function openScreen(source: Source, size = { columns: 100, rows: 24 }) {
  let isLeft = false
  const leave = () => {
    isLeft = true
  }
  const screen = render(<App source={source} size={size} onLeave={leave} />)
  tellRows(screen.stdout)
  const read = () => Bun.stripANSI(screen.lastFrame() ?? '')
  return {
    read,
    stdout: screen.stdout,
    get isLeft() {
      return isLeft
    },
    resize: (columns: number, rows: number) =>
      screen.rerender(<App source={source} size={{ columns, rows }} onLeave={leave} />),
    /** Waits until the screen shows a text, or no longer shows it. */
    async see(text: string, isThere = true): Promise<string> {
      while (read().includes(text) !== isThere) await Bun.sleep(2)
      return read()
    },
    /** Types keys one after the other. */
    async type(...keys: string[]): Promise<void> {
      for (const key of keys) {
        screen.stdin.write(key)
        await Bun.sleep(0)
      }
    },
    [Symbol.dispose]: () => screen.unmount(),
  }
}

/**
 * Has the screens of the library tell their rows, as many as Ink takes otherwise: of one that does
 * not, Ink asks a program of the system at each of its frames.
 */
const tellRows = (stdout: object) =>
  Object.defineProperty(Object.getPrototypeOf(stdout), 'rows', { value: 24, configurable: true })
