import { useEffect, useState } from 'react'
import { Lines } from '../lines.tsx'
import type { LiveCall } from '../live.ts'
import { renderCall } from '../models/call.ts'
import type { CallRecord } from '../source.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** One call: its plan, its attempts, and its record once it has ended. */
export function CallView({
  call,
  source,
  width,
  height,
  onBack,
}: ViewProps & { call: LiveCall; onBack(): void }) {
  const { attempt } = useShell()
  const [record, setRecord] = useState<CallRecord | null>(null)
  const isDone = call.state === 'done'
  useEffect(() => {
    if (isDone) attempt(async () => setRecord(await source.getCall(call.id)))
  }, [call.id, isDone, source])
  const lines = renderCall(call, record, width)
  const { top, handle } = useScroll(lines.length, height)
  useAction(action => {
    if (!handle(action) && action === 'back') onBack()
  })
  return <Lines height={height} lines={lines.slice(top, top + height)} />
}
