import { useEffect, useState } from 'react'
import { describeFailure } from '../failure.ts'
import { Lines } from '../lines.tsx'
import type { LiveCall } from '../live.ts'
import { renderCall } from '../models/call.ts'
import {
  CALL_SORTS,
  type CallSort,
  listCalls,
  renderCalls,
  summarizeCalls,
} from '../models/calls.ts'
import type { CallRecord, PastExplanation } from '../source.ts'
import { fit, say } from '../text.ts'
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
