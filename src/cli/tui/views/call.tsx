import { useEffect, useState } from 'react'
import { describeFailure } from '../failure.ts'
import { Lines } from '../lines.tsx'
import type { LiveCall } from '../live.ts'
import { renderCall } from '../models/call.ts'
import type { CallRecord, PastExplanation } from '../source.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction, useHint, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/**
 * One call: its plan, its attempts, and once it has ended its record, and what would become of it
 * now.
 */
export function CallView({
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
