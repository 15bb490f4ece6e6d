import { useStdout } from 'ink'
import { useCallback, useState } from 'react'
import { Lines } from '../lines.tsx'
import { listKeyRows, renderKeys, renderRates } from '../models/keys.ts'
import { renderFields } from '../models/nouns.ts'
import type { KeyRecord } from '../source.ts'
import { fit, say } from '../text.ts'
import { useActions } from '../use-actions.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction, useShell } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Keys: what they spend, and what changes them. */
export function KeysView({ source, now, width, height }: ViewProps) {
  const { notify } = useShell()
  const { stdout } = useStdout()
  const { filter, handle: handleFilter } = useFilter()
  const read = useCallback(async () => (await source.list('keys')) as KeyRecord[], [source])
  const { value, failure, reload } = useLoaded(read)
  const [created, setCreated] = useState<string | null>(null)
  const [opened, setOpened] = useState<string | null>(null)
  const rows = listKeyRows(value ?? [], filter)
  const list = useList(
    rows.length,
    height - 2,
    rows.map(({ hash }) => hash),
  )
  const change = useActions(source, 'keys', { reload, reveal: setCreated })

  useAction(action => {
    if (created !== null) {
      // The clipboard of the terminal (OSC 52), also over SSH.
      if (action === 'copy')
        stdout.write(`\u001b]52;c;${Buffer.from(created).toString('base64')}\u0007`)
      if (action === 'copy') notify('Copied, if the terminal allows it', 'good')
      if (action === 'back' || action === 'open') setCreated(null)
      return
    }
    const key = rows.find(({ hash }) => hash === opened) ?? rows[list.selected]
    if (change(action, key)) return
    if (opened !== null) {
      if (action === 'back') setOpened(null)
      return
    }
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'open') setOpened(key?.hash ?? null)
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
  if (shown) return <OpenedKey {...{ source, width, height }} record={shown} />
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

/** All fields of a key, and how often it may call. */
function OpenedKey({
  source,
  record,
  width,
  height,
}: Pick<ViewProps, 'source' | 'width' | 'height'> & { record: KeyRecord }) {
  const read = useCallback(() => source.readRates(record), [source, record.hash])
  const { value, failure } = useLoaded(read)
  const rates = value ? renderRates(value) : failure ? { rates: failure } : {}
  const { hash, name, label, disabled, ...fields } = record
  const lines = renderFields({ hash, name, label, disabled, ...rates, ...fields }, width)
  const scroll = useScroll(lines.length, height)
  useAction(action => void scroll.handle(action))
  return <Lines height={height} lines={lines.slice(scroll.top, scroll.top + height)} />
}
