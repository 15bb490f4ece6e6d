import { Lines } from '../lines.tsx'
import { listEndpoints, renderEndpoints } from '../models/endpoints.ts'
import { fit, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Providers and endpoints: how each is doing, and its circuit. */
export function EndpointsView({ live, source, width, height }: ViewProps) {
  const { ask, attempt, confirm, notify } = useShell()
  const { filter, handle: handleFilter } = useFilter()
  const rows = listEndpoints(live, filter)
  const list = useList(rows.length, height - 2)
  const selected = rows[list.selected]?.endpoint
  const rest = async (endpoint: string) => {
    const text = await ask(`Let ${endpoint} rest for how many minutes?`, '10')
    if (text === null) return
    const minutes = Number(text)
    if (text.trim() === '' || !(minutes > 0 && minutes <= 1_440))
      return notify('Expected minutes above 0, to 1440', 'bad')
    await source.rest(endpoint, Math.max(1, Math.round(minutes * 60)))
    notify(`${endpoint} rests for ${minutes} min`, 'good')
  }
  const wake = async (endpoint: string) => {
    if (!(await confirm(`End every cooldown of ${endpoint}?`))) return
    await source.wake(endpoint)
    notify(`${endpoint} is awake`, 'good')
  }
  useAction(action => {
    if (list.handle(action) || handleFilter(action) || selected === undefined) return
    if (action === 'rest') attempt(() => rest(selected))
    if (action === 'wake') attempt(() => wake(selected))
  })
  const cooling = rows.filter(({ cooldown }) => cooldown !== null).length
  const heading = `${rows.length} endpoints in use, ${cooling} cooling down${filter ? ` · filter: ${filter}` : ''}`
  return (
    <Lines
      height={height}
      lines={[
        say(fit(heading, width), cooling > 0 ? 'warn' : 'bold'),
        ...renderEndpoints(rows.slice(list.top, list.bottom), {
          width,
          selected: list.selected - list.top,
        }),
      ]}
    />
  )
}
