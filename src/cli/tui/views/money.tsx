import { Lines } from '../lines.tsx'
import { listMoney, parseAmount, renderMoney } from '../models/money.ts'
import { fit, formatUsd, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/**
 * Money: what keys, members, workspaces, models and apps cost today, this week and this month, who is
 * near a limit, and credits, which are added here.
 */
export function MoneyView({ source, width, height }: ViewProps) {
  const { filter, handle: handleFilter } = useFilter()
  const { ask, attempt, confirm, notify } = useShell()
  const { value: money, failure, reload } = useLoaded(source.readMoney)
  const rows = money ? listMoney(money, filter) : []
  const list = useList(rows.length, height - 2)
  const addCredit = async () => {
    const text = await ask('Credits to add in USD; below 0 to correct')
    if (text === null) return
    const amount = parseAmount(text)
    if (amount === undefined) return notify('Expected an amount such as 50 or -2.50', 'bad')
    const note = await ask('A note about them, or nothing')
    if (note === null) return
    if (!(await confirm(`Add ${formatUsd(amount)} to the credits?`))) return
    await source.addCredit(note === '' ? { amount } : { amount, note })
    await reload()
    notify(`${formatUsd(amount)} is added`, 'good')
  }
  useAction(action => {
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'credit') attempt(addCredit)
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
