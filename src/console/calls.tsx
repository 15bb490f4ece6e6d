/** @jsxImportSource preact */
import { useEffect, useRef, useState } from 'preact/hooks'
import { Live, type LiveCall } from '../cli/tui/live.ts'
import { ApiError, ask, type OwnSession, openFeed, readEvents } from './api.ts'
import { toLabel } from './form.tsx'
import { type Column, Find, Table, useLoaded, Waiting } from './parts.tsx'
import { link, matchWords, type Place } from './route.ts'
import { formatCount, formatMilliseconds, formatTime, formatUsd, formatValue } from './text.ts'

/** What the feed has told since the page was opened. It outlives the views of it. */
const live = new Live()

const ENDED = 'The feed has ended: it is opened again'
const SHOWN = 200
const PAST = 200
/** In milliseconds: how long after the feed has ended it is opened again. */
const PAUSE = 2_000

/** Listens to the feed while a view of it is open. Draws at most once in a frame. */
function useFeed(): { version: number; error: Error | undefined } {
  const [version, setVersion] = useState(live.version)
  const [error, setError] = useState<Error>()
  const ended = useRef(false)
  useEffect(() => {
    ended.current = false
    let frame = 0
    let timer = 0
    let events: AsyncGenerator<string[]> | undefined
    const draw = () => {
      frame ||= requestAnimationFrame(() => {
        frame = 0
        setVersion(live.version)
      })
    }
    const listen = async () => {
      events = readEvents(await openFeed(live.calls.size === 0 ? PAST : 0))
      setError(undefined)
      for await (const batch of events) {
        live.applyAll(batch)
        draw()
      }
      throw new Error(ENDED)
    }
    const start = () => {
      listen().catch(thrown => {
        if (ended.current) return
        live.forgetRunning()
        setError(thrown instanceof ApiError ? thrown : new Error(ENDED))
        timer = window.setTimeout(start, PAUSE)
      })
    }
    start()
    return () => {
      ended.current = true
      cancelAnimationFrame(frame)
      clearTimeout(timer)
      void events?.return(undefined)
    }
  }, [])
  return { version, error }
}

const showStatus = ({ state, status, error }: LiveCall): string =>
  state === 'running' ? 'running' : `${status ?? ''}${error ? ` ${error}` : ''}`.trim()

const COLUMNS: Column<LiveCall>[] = [
  {
    title: 'Time',
    show: call => <a href={link(['calls', call.id])}>{formatTime(call.startedAt)}</a>,
  },
  { title: 'Status', show: showStatus },
  { title: 'Model', show: call => call.model },
  { title: 'Provider', show: call => call.provider },
  { title: 'Key', show: call => call.key },
  { title: 'App', show: call => call.app },
  { title: 'First token', isNumber: true, show: call => formatMilliseconds(call.latency) },
  { title: 'Took', isNumber: true, show: call => formatMilliseconds(call.time) },
  { title: 'Tokens', isNumber: true, show: call => formatCount(call.tokens) },
  { title: 'Cost', isNumber: true, show: call => formatUsd(call.cost) },
]

/** The calls of this gateway, as they happen. */
export function Calls({ place }: { place: Place }) {
  const { error } = useFeed()
  const matches = matchWords(place)
  const rows = [...live.calls.values()]
    .filter(call =>
      matches([call.id, showStatus(call), call.model, call.provider, call.key, call.app].join(' ')),
    )
    .sort((a, b) => b.startedAt - a.startedAt)
    .slice(0, SHOWN)
  return (
    <>
      <h1>Calls</h1>
      <div class="tools">
        <Find place={place} />
        <form
          onSubmit={event => {
            event.preventDefault()
            const id = String(new FormData(event.currentTarget).get('id') ?? '').trim()
            if (id !== '') location.hash = link(['calls', id])
          }}
        >
          <label>
            Open by id <input name="id" placeholder="gen-…" autocomplete="off" />
          </label>
        </form>
      </div>
      {error ? (
        <p class="notice bad" role="status">
          {error.message}
        </p>
      ) : null}
      <Table
        caption="Calls"
        columns={COLUMNS}
        rows={rows}
        empty="No call yet. New ones appear here."
      />
    </>
  )
}

/** The parts of a call's time, in the order in which they follow each other. */
interface Span {
  title: string
  from: number
  to: number
  kind: 'good' | 'bad' | 'wait'
}

/** One call: what it took, what was tried, why not elsewhere, and all that its record says. */
export function OneCall({ id, session }: { id: string; session: OwnSession }) {
  const loaded = useLoaded(
    () => ask<{ data: Record<string, unknown> }>('GET', `/generation?id=${encodeURIComponent(id)}`),
    [id],
  )
  const told = live.calls.get(id)
  const [isAsked, setAsked] = useState(false)
  return (
    <>
      <p>
        <a href={link(['calls'])}>Calls</a>
      </p>
      <h1>Call</h1>
      <p>
        <code>{id}</code>
      </p>
      {told?.plan ? <Plan json={told.plan} /> : null}
      {loaded.value && session.role === 'manager' && !isAsked ? (
        <button type="button" onClick={() => setAsked(true)}>
          Explain such a call now
        </button>
      ) : null}
      {loaded.value && isAsked ? (
        <Explanation
          body={{ model: loaded.value.data.model, messages: [{ role: 'user', content: 'Hello' }] }}
          keyHash={(loaded.value.data.key_hash as string | null) ?? undefined}
        />
      ) : null}
      {loaded.value ? <Record record={loaded.value.data} /> : <Waiting {...loaded} />}
    </>
  )
}

/** What the API says of a call that it does not make. */
interface Explained {
  models: string[]
  strategy: string
  endpoints: {
    provider_name: string
    model: string
    probability: number | null
    estimated_cost: { usd: number | null }
    cooldown: { reason: string } | null
  }[]
  dropped: { provider: string; model: string; reason: string }[]
  policy: { guardrails: { name: string }[]; limits: { message?: string }[] }
  error: { message: string } | null
}

/** Explains what would become of a call now, as it is or as a key would make it. */
export function Explanation({ body, keyHash }: { body: object; keyHash?: string | undefined }) {
  const debug = { dry_run: true, ...(keyHash ? { key: keyHash } : {}) }
  const loaded = useLoaded(
    () => ask<Explained>('POST', '/chat/completions', { ...body, stream: false, debug }),
    [JSON.stringify(body), keyHash],
  )
  const explained = loaded.value
  if (!explained) return <Waiting {...loaded} />
  const { endpoints, dropped, error, policy, strategy } = explained
  return (
    <section>
      <h2>Where it would go now</h2>
      {error ? <p class="notice bad">Refused: {error.message}</p> : null}
      <p class="quiet">
        Order: {strategy}
        {policy.guardrails.length > 0
          ? `. Guardrails: ${policy.guardrails.map(({ name }) => name).join(', ')}`
          : ''}
      </p>
      <Table
        caption="Endpoints now"
        empty="Nowhere."
        columns={[
          { title: 'Provider', show: row => row.provider },
          { title: 'Model', show: row => row.model },
          { title: 'Chance', isNumber: true, show: row => row.chance },
          { title: 'At most', isNumber: true, show: row => row.cost },
          { title: 'Why not', show: row => row.reason },
        ]}
        rows={[
          ...endpoints.map(one => ({
            ...{ provider: one.provider_name, model: one.model },
            chance: one.probability === null ? '' : `${Math.round(one.probability * 100)} %`,
            cost: formatUsd(one.estimated_cost.usd),
            reason: one.cooldown ? `rests: ${one.cooldown.reason}` : '',
          })),
          ...dropped.map(one => ({ ...one, chance: '', cost: '' })),
        ]}
      />
    </section>
  )
}

/** Why the call went where it went, and why not elsewhere. */
function Plan({ json }: { json: string }) {
  const { strategy, candidates, dropped } = JSON.parse(json) as {
    strategy: string
    candidates: { provider: string; model: string; probability: number | null }[]
    dropped: { provider: string; model: string; reason: string }[]
  }
  return (
    <section>
      <h2>Where it could go</h2>
      <p class="quiet">Order: {strategy}</p>
      <Table
        caption="Endpoints"
        columns={[
          { title: 'Provider', show: row => row.provider },
          { title: 'Model', show: row => row.model },
          { title: 'Why not', show: row => row.reason },
        ]}
        rows={[
          ...candidates.map(({ provider, model }) => ({ provider, model, reason: '' })),
          ...dropped,
        ]}
      />
    </section>
  )
}

function Record({ record }: { record: { [field: string]: unknown } }) {
  const spans = listSpans(record)
  const whole = Math.max(1, ...spans.map(({ to }) => to))
  return (
    <>
      <section>
        <h2>Time</h2>
        <ul class="timeline">
          {spans.map(({ title, from, to, kind }, i) => (
            <li key={i}>
              <span>
                {title} <span class="quiet">{formatMilliseconds(to - from)}</span>
              </span>
              <meter
                class={kind}
                min={0}
                max={whole}
                value={Math.max(to - from, whole / 200)}
                aria-label={`${title}: ${formatMilliseconds(to - from)}`}
              />
            </li>
          ))}
        </ul>
        <p>Cost: {formatUsd(record.total_cost as number)}</p>
      </section>
      <section>
        <h2>Record</h2>
        <dl class="facts">
          {Object.entries(record)
            .filter(
              ([, value]) => value !== null && value !== undefined && typeof value !== 'object',
            )
            .map(([field, value]) => (
              <div key={field}>
                <dt>{toLabel(field)}</dt>
                <dd>{formatValue(value)}</dd>
              </div>
            ))}
        </dl>
      </section>
    </>
  )
}

/** Lists what took time: the attempts one after another, then the answer after its first token. */
function listSpans(record: { [field: string]: unknown }): Span[] {
  const spans: Span[] = []
  let at = 0
  const attempts = (record.provider_responses ?? []) as {
    provider_name?: string
    status?: number
    latency?: number
  }[]
  for (const { provider_name, status, latency } of attempts) {
    const to = at + (latency ?? 0)
    const isGood = status !== undefined && status < 400
    spans.push({
      title: `${provider_name ?? 'endpoint'} ${status ?? 'no answer'}`,
      ...{ from: at, to, kind: isGood ? 'good' : 'bad' },
    })
    at = to
  }
  const { latency, generation_time } = record as { latency?: number; generation_time?: number }
  if (latency != null) spans.push({ title: 'First token', from: 0, to: latency, kind: 'wait' })
  if (generation_time != null)
    spans.push({ title: 'Whole answer', from: 0, to: generation_time, kind: 'good' })
  return spans
}

/** How the endpoints are doing, and what waits in the server. */
export function Health() {
  const { error } = useFeed()
  const state = live.seconds.at(-1)
  return (
    <>
      <h1>Health</h1>
      {error ? (
        <p class="notice bad" role="status">
          {error.message}
        </p>
      ) : null}
      {state ? (
        <div class="tiles">
          <Tile title="Running calls" text={formatCount(state.running_calls)} />
          <Tile title="Waiting for a turn" text={formatCount(state.queues.calls)} />
          <Tile title="Waiting to be recorded" text={formatCount(state.queues.records)} />
          <Tile title="Waiting for destinations" text={formatCount(state.queues.deliveries)} />
          <Tile title="Memory" text={`${formatCount(state.memory_bytes / 1_048_576)} MiB`} />
        </div>
      ) : (
        <p class="quiet">The state of the whole server is for those who manage all workspaces.</p>
      )}
      <h2>Endpoints</h2>
      <Table
        caption="Endpoints"
        empty="None was asked in the last minutes."
        columns={[
          { title: 'Endpoint', show: one => one.endpoint },
          { title: 'Model', show: one => one.model },
          { title: 'Answered', isNumber: true, show: one => formatCount(one.succeeded) },
          { title: 'Failed', isNumber: true, show: one => formatCount(one.failed) },
          {
            title: 'First token, p50',
            isNumber: true,
            show: one => formatMilliseconds(one.latency_p50),
          },
          { title: 'p95', isNumber: true, show: one => formatMilliseconds(one.latency_p95) },
          {
            title: 'Rests',
            show: one =>
              one.cooldown
                ? `${one.cooldown.reason}, ${Math.round(one.cooldown.seconds_left)} s`
                : '',
          },
        ]}
        rows={[...live.endpoints.values()]}
      />
      <h2>Alarms</h2>
      <Table
        caption="Alarms"
        empty="None since this page was opened."
        columns={[
          { title: 'Time', show: one => formatTime(one.at) },
          { title: 'What', show: one => one.text },
        ]}
        rows={live.alarms}
      />
    </>
  )
}

const Tile = ({ title, text }: { title: string; text: string }) => (
  <div class="tile">
    <span class="quiet">{title}</span>
    <strong>{text}</strong>
  </div>
)
