import { useState } from 'react'
import { Lines } from '../lines.tsx'
import type { LiveCall } from '../live.ts'
import {
  CALL_SORTS,
  type CallSort,
  listCalls,
  renderCalls,
  summarizeCalls,
} from '../models/calls.ts'
import { fit, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useAction } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'
import { CallView } from './call.tsx'

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
