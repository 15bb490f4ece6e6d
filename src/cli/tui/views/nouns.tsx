import { useCallback, useState } from 'react'
import { identifyRow, type Row } from '../actions/asking.ts'
import { Lines } from '../lines.tsx'
import { listRows, renderFields, renderRows } from '../models/nouns.ts'
import { NOUNS, type Noun } from '../source.ts'
import { fit, say } from '../text.ts'
import { useActions } from '../use-actions.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction, useHint } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Everything else that has a noun: a list of each, with all fields of one. */
export function NounsView(props: ViewProps) {
  const { width, height } = props
  const [opened, setOpened] = useState<(typeof NOUNS)[number] | null>(null)
  const list = useList(NOUNS.length, height - 1)
  useAction(action => {
    if (opened !== null || list.handle(action)) return
    if (action === 'open') setOpened(NOUNS[list.selected] ?? null)
  })
  if (opened !== null) return <NounView {...props} noun={opened} onBack={() => setOpened(null)} />
  return (
    <Lines
      height={height}
      lines={[
        say('What else there is', 'bold'),
        ...NOUNS.map((noun, index) =>
          say(fit(noun, width), index === list.selected ? 'selected' : 'plain'),
        ),
      ]}
    />
  )
}

function NounView({
  noun,
  source,
  width,
  height,
  onBack,
}: ViewProps & { noun: Noun; onBack(): void }) {
  const read = useCallback(() => source.list(noun), [source, noun])
  const { value, failure, reload } = useLoaded(read)
  const { filter, handle: handleFilter } = useFilter()
  const [openedId, setOpened] = useState<string | null>(null)
  const rows = listRows(value ?? [], filter)
  const ids = rows.map(row => identifyRow(noun, row as Row))
  const list = useList(rows.length, height - 2, ids)
  const opened = openedId === null ? undefined : rows[ids.indexOf(openedId)]
  const change = useActions(source, noun, { reload })
  const fields = opened ? renderFields(opened, width) : []
  const scroll = useScroll(fields.length, height)
  useHint(
    opened
      ? 'esc back · e d m x t u change it'
      : 'enter open · n new · e d m x t u change it · esc back',
  )
  useAction(action => {
    if (change(action, opened ?? rows[list.selected])) return
    if (opened) {
      if (!scroll.handle(action) && action === 'back') setOpened(null)
      return
    }
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'back') onBack()
    if (action === 'open') setOpened(ids[list.selected] ?? null)
  })
  if (opened) return <Lines height={height} lines={fields.slice(scroll.top, scroll.top + height)} />
  const heading =
    failure ??
    `${noun}: ${value ? rows.length : 'reading …'}${filter ? ` · filter: ${filter}` : ''}`
  return (
    <Lines
      height={height}
      lines={[
        say(fit(heading, width), failure ? 'bad' : 'bold'),
        ...renderRows(rows.slice(list.top, list.bottom), {
          width,
          selected: list.selected - list.top,
        }),
      ]}
    />
  )
}
