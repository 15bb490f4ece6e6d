import { Lines } from '../lines.tsx'
import { listMoney, renderMoney } from '../models/money.ts'
import { fit, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useAction } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Money: what keys and models cost today, this week and this month, and who is near a limit. */
export function MoneyView({ source, width, height }: ViewProps) {
  const { filter, handle: handleFilter } = useFilter()
  const { value: money, failure } = useLoaded(source.readMoney)
  const rows = money ? listMoney(money, filter) : []
  const list = useList(rows.length, height - 2)
  useAction(action => {
    list.handle(action) || handleFilter(action)
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
