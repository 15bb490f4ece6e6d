import { Lines } from '../lines.tsx'
import { listMoney, renderMoney } from '../models/money.ts'
import { fit, say } from '../text.ts'
import { useActions } from '../use-actions.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useAction } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/**
 * Money: what keys, members, workspaces, models and apps cost today, this week and this month, who is
 * near a limit, and credits, which are added here.
 */
export function MoneyView({ source, width, height }: ViewProps) {
  const { filter, handle: handleFilter } = useFilter()
  const { value: money, failure, reload } = useLoaded(source.readMoney)
  const rows = money ? listMoney(money, filter) : []
  const list = useList(rows.length, height - 2)
  const change = useActions(source, 'credits', { reload })
  useAction(action => {
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'credit') change('create', undefined)
  })
  if (!money)
    return <Lines height={height} lines={[say(fit(failure ?? 'Reading …', width), 'dim')]} />
  return (
    <Lines
      height={height}
      lines={renderMoney(money, rows.slice(list.top, list.bottom), {
        width,
        selected: list.selected - list.top,
      })}
    />
  )
}
