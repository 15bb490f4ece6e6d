import { useStdout } from 'ink'
import { useState } from 'react'
import { Lines } from '../lines.tsx'
import { listKeyRows, parseLimit, renderKeys } from '../models/keys.ts'
import { renderFields } from '../models/nouns.ts'
import type { KeyRecord } from '../source.ts'
import { fit, formatUsd, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Keys: what they spend, and what changes them. */
export function KeysView({ source, now, width, height }: ViewProps) {
  const { ask, attempt, confirm, notify } = useShell()
  const { stdout } = useStdout()
  const { filter, handle: handleFilter } = useFilter()
  const { value, failure, reload } = useLoaded(source.listKeys)
  const [created, setCreated] = useState<string | null>(null)
  const [opened, setOpened] = useState<string | null>(null)
  const rows = listKeyRows(value ?? [], filter)
  const list = useList(rows.length, height - 2)

  const create = async () => {
    const name = await ask('Name of the new key')
    if (!name) return
    const text = await ask('Its limit in USD, or nothing for none')
    if (text === null) return
    const limit = parseLimit(text)
    if (limit === undefined) return notify('Expected an amount such as 5 or 0.50', 'bad')
    setCreated(await source.createKey(limit === null ? { name } : { name, limit }))
    await reload()
  }
  const disable = async ({ hash, name, disabled }: KeyRecord) => {
    if (!(await confirm(`${disabled ? 'Enable' : 'Disable'} ${name}?`))) return
    await source.updateKey(hash, { disabled: !disabled })
    await reload()
    notify(`${name} is ${disabled ? 'enabled' : 'disabled'}`, 'good')
  }
  const changeLimit = async ({ hash, name, limit: before }: KeyRecord) => {
    const text = await ask(`New limit of ${name} in USD, or nothing for none`, String(before ?? ''))
    if (text === null) return
    const limit = parseLimit(text)
    if (limit === undefined) return notify('Expected an amount such as 5 or 0.50', 'bad')
    const change = `${before === null ? 'none' : formatUsd(before)} to ${limit === null ? 'none' : formatUsd(limit)}`
    if (!(await confirm(`Change the limit of ${name} from ${change}?`))) return
    await source.updateKey(hash, { limit })
    await reload()
    notify(`The limit of ${name} is changed`, 'good')
  }

  useAction(action => {
    if (created !== null) {
      // The clipboard of the terminal (OSC 52), also over SSH.
      if (action === 'copy')
        stdout.write(`\u001b]52;c;${Buffer.from(created).toString('base64')}\u0007`)
      if (action === 'copy') notify('Copied, if the terminal allows it', 'good')
      if (action === 'back' || action === 'open') setCreated(null)
      return
    }
    if (opened !== null) {
      if (action === 'back') setOpened(null)
      return
    }
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'create') attempt(create)
    const key = rows[list.selected]
    if (!key) return
    if (action === 'disable') attempt(() => disable(key))
    if (action === 'limit') attempt(() => changeLimit(key))
    if (action === 'open') setOpened(key.hash)
  })

  if (created !== null)
    return (
      <Lines
        height={height}
        lines={[
          say('The new key. It is shown this once:', 'bold'),
          say(''),
          say(fit(created, width), 'good'),
          say(''),
          say(fit('y copies it (OSC 52), esc goes on', width), 'dim'),
        ]}
      />
    )
  const shown = rows.find(({ hash }) => hash === opened)
  if (shown) return <Lines height={height} lines={renderFields(shown, width)} />
  const heading = failure ?? `${rows.length} keys${filter ? ` · filter: ${filter}` : ''}`
  return (
    <Lines
      height={height}
      lines={[
        say(fit(heading, width), failure ? 'bad' : 'bold'),
        ...renderKeys(rows.slice(list.top, list.bottom), {
          width,
          now,
          selected: list.selected - list.top,
        }),
      ]}
    />
  )
}
