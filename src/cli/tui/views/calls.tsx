import { useEffect, useState } from 'react'
import { describeFailure } from '../failure.ts'
import { Lines } from '../lines.tsx'
import type { Live, LiveCall } from '../live.ts'
import { renderCall } from '../models/call.ts'
import type { CallRecord, PastExplanation } from '../source.ts'
import {
  type Column,
  fit,
  formatCount,
  formatTime,
  formatUsd,
  type Line,
  renderTable,
  type Style,
  say,
} from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction, useHint, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Live routing: the calls as they run, the newest first. */
export function CallsView(props: ViewProps) {
  const { live, now, width, height } = props
  const { filter, handle: handleFilter } = useFilter()
  const [sort, setSort] = useState<CallSort>('time')
  const [isReversed, setReversed] = useState(false)
  const [frozen, setFrozen] = useState<{ calls: LiveCall[]; now: number } | null>(null)
  const [opened, setOpened] = useState<string | null>(null)
  const shownNow = frozen?.now ?? now
  const calls = listCalls(
    frozen?.calls ?? live.calls.values(),
    { filter, sort, isReversed },
    shownNow,
  )
  const list = useList(
    calls.length,
    height - 2,
    calls.map(({ id }) => id),
  )
  useAction(action => {
    if (opened !== null) return
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'sort')
      setSort(CALL_SORTS[(CALL_SORTS.indexOf(sort) + 1) % CALL_SORTS.length] ?? 'time')
    if (action === 'reverse') setReversed(!isReversed)
    if (action === 'pause')
      setFrozen(frozen ? null : { calls: [...live.calls.values()].map(call => ({ ...call })), now })
    if (action === 'open') setOpened(calls[list.selected]?.id ?? null)
  })
  const call =
    opened === null ? undefined : (live.calls.get(opened) ?? calls.find(({ id }) => id === opened))
  if (call) return <CallView {...props} call={call} onBack={() => setOpened(null)} />
  const facts = [
    frozen ? 'PAUSED' : summarizeCalls(live),
    `${calls.length} shown`,
    `by ${sort}${isReversed ? ', reversed' : ''}`,
    filter ? `filter: ${filter}` : '',
  ]
  return (
    <Lines
      height={height}
      lines={[
        say(fit(facts.filter(Boolean).join(' · '), width), frozen ? 'warn' : 'bold'),
        ...renderCalls(calls.slice(list.top, list.bottom), {
          width,
          now: shownNow,
          selected: list.selected - list.top,
        }),
      ]}
    />
  )
}

/**
 * One call: its plan, its attempts, and once it has ended its record, and what would become of it
 * now.
 */
function CallView({
  call,
  source,
  width,
  height,
  onBack,
}: ViewProps & { call: LiveCall; onBack(): void }) {
  const { attempt } = useShell()
  const [record, setRecord] = useState<CallRecord | null>(null)
  const [now, setNow] = useState<PastExplanation | string | null>(null)
  const isDone = call.state === 'done'
  useEffect(() => {
    if (!isDone) return
    attempt(async () => setRecord(await source.getCall(call.id)))
    source.explainCall(call.id).then(setNow, thrown => setNow(describeFailure(thrown)))
  }, [call.id, isDone, source])
  useHint('esc back · j k ctrl-d ctrl-u scroll')
  const lines = renderCall(call, record, now, width)
  const { top, handle } = useScroll(lines.length, height)
  useAction(action => {
    if (!handle(action) && action === 'back') onBack()
  })
  return <Lines height={height} lines={lines.slice(top, top + height)} />
}

/** What calls can be sorted by, in the order of the key. */
const CALL_SORTS = ['time', 'cost', 'first part', 'speed', 'status', 'model'] as const
type CallSort = (typeof CALL_SORTS)[number]

/** Which calls are shown, and in which order. */
interface CallChoice {
  filter: string
  sort: CallSort
  isReversed: boolean
}

/**
 * Computes the tokens per second after the first part; null while that is unknown. An answer that
 * came whole has no time after it: its tokens took all of its time.
 */
function computeSpeed(call: LiveCall, now: number): number | null {
  const total = call.state === 'running' ? now - call.startedAt : call.time
  if (total === null || call.tokens === 0) return null
  const after = total - (call.latency ?? 0)
  const seconds = Math.max(1, after * WHOLE < total ? total : after) / 1000
  return call.tokens / seconds
}

/** An answer came whole where its parts came within this fraction of its time. */
const WHOLE = 20

const VALUES: Record<CallSort, (call: LiveCall, now: number) => number | string> = {
  time: call => call.startedAt,
  cost: call => call.cost ?? -1,
  'first part': call => call.latency ?? -1,
  speed: (call, now) => computeSpeed(call, now) ?? -1,
  status: call => call.status ?? 0,
  model: call => call.model,
}

/** Lists the calls that match, those with the largest value first: the newest, unless told else. */
export function listCalls(
  calls: Iterable<LiveCall>,
  { filter, sort, isReversed }: CallChoice,
  now: number,
): LiveCall[] {
  const wanted = filter.toLowerCase().split(' ').filter(Boolean)
  const found = [...calls].filter(call => matches(call, wanted))
  const read = VALUES[sort]
  found.sort((a, b) => {
    const [left, right] = [read(a, now), read(b, now)]
    return left < right ? 1 : left > right ? -1 : b.startedAt - a.startedAt
  })
  return isReversed ? found.reverse() : found
}

/** Whether a call has all these words somewhere. */
function matches(call: LiveCall, words: string[]): boolean {
  if (words.length === 0) return true
  const text = [
    call.id,
    renderStatus(call),
    call.model,
    call.provider,
    call.key,
    call.app,
    call.error,
    ...call.attempts.map(({ provider, error_type }) => `${provider} ${error_type ?? ''}`),
  ]
    .join(' ')
    .toLowerCase()
  return words.every(word => text.includes(word))
}

const renderStatus = ({ state, status, latency }: LiveCall): string =>
  state === 'running' ? (latency === null ? 'waiting' : 'running') : String(status ?? '-')

/** Chooses the style of a call's status. */
const styleStatus = ({ state, status }: LiveCall): Style =>
  state === 'running' ? 'accent' : (status ?? 0) >= 400 ? 'bad' : 'good'

const countAttempts = ({ attempts, tries }: LiveCall): number => Math.max(attempts.length, tries)

const columns = (now: number): Column<LiveCall>[] => [
  { title: 'TIME', width: 8, rank: 3, cell: ({ at }) => at.slice(11, 19) },
  { title: 'STATUS', width: 7, rank: 0, cell: renderStatus, style: styleStatus },
  { title: 'MODEL', width: 24, rank: 1, grows: true, isId: true, cell: ({ model }) => model },
  { title: 'PROVIDER', width: 10, rank: 2, cell: ({ provider }) => provider || '-' },
  {
    ...{ title: 'TRY', width: 3, rank: 4, align: 'right' },
    cell: call => String(countAttempts(call)),
    style: call => (countAttempts(call) > 1 ? 'warn' : 'plain'),
  },
  {
    ...{ title: 'FIRST', width: 6, rank: 6, align: 'right' },
    cell: ({ latency }) => formatTime(latency),
  },
  {
    ...{ title: 'TOOK', width: 6, rank: 5, align: 'right' },
    cell: call => formatTime(call.state === 'running' ? now - call.startedAt : call.time),
  },
  { title: 'TOKENS', width: 6, rank: 9, align: 'right', cell: ({ tokens }) => formatCount(tokens) },
  {
    ...{ title: 'TOK/S', width: 5, rank: 8, align: 'right' },
    cell: call => {
      const speed = computeSpeed(call, now)
      return speed === null ? '-' : formatCount(speed)
    },
  },
  { title: 'COST', width: 8, rank: 4, align: 'right', cell: ({ cost }) => formatUsd(cost) },
  { title: 'KEY', width: 10, rank: 7, grows: true, cell: ({ key }) => key || '-' },
  { title: 'APP', width: 10, rank: 10, grows: true, cell: ({ app }) => app || '-' },
  { title: 'ERROR', width: 12, rank: 11, grows: true, cell: ({ error }) => error ?? '' },
]

/** Renders the calls that are on the screen, under their headings. */
export const renderCalls = (
  calls: LiveCall[],
  options: { width: number; selected: number; now: number },
): Line[] => renderTable(columns(options.now), calls, options)

/** Summarizes the last second in a few words. */
function summarizeCalls({ calls, seconds }: Live): string {
  const running = [...calls.values()].filter(({ state }) => state === 'running').length
  const last = seconds.at(-1)
  const rate = last ? (last.finished * 1000) / Math.max(1, last.milliseconds) : 0
  return `${running} running, ${formatCount(rate)} calls/s`
}
