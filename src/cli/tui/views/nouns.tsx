import { useCallback, useState } from 'react'
import { Lines } from '../lines.tsx'
import { listRows, renderFields, renderRows } from '../models/nouns.ts'
import { NOUNS, type Noun } from '../source.ts'
import { fit, say } from '../text.ts'
import { useFilter } from '../use-filter.ts'
import { useList } from '../use-list.ts'
import { useLoaded } from '../use-loaded.ts'
import { useScroll } from '../use-scroll.ts'
import { useAction } from '../use-shell.ts'
import type { ViewProps } from '../view.ts'

/** Everything else that has a noun: a list of each, with all fields of one. */
export function NounsView(props: ViewProps) {
  const { width, height } = props
  const [opened, setOpened] = useState<Noun | null>(null)
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
  const read = useCallback(() => source.listNoun(noun), [source, noun])
  const { value, failure } = useLoaded(read)
  const { filter, handle: handleFilter } = useFilter()
  const [opened, setOpened] = useState<object | null>(null)
  const rows = listRows(value ?? [], filter)
  const list = useList(rows.length, height - 2)
  const fields = opened ? renderFields(opened, width) : []
  const scroll = useScroll(fields.length, height)
  useAction(action => {
    if (opened) {
      if (!scroll.handle(action) && action === 'back') setOpened(null)
      return
    }
    if (list.handle(action) || handleFilter(action)) return
    if (action === 'back') onBack()
    if (action === 'open') setOpened(rows[list.selected] ?? null)
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
