import { useInput } from 'ink'
import { KEYS } from '../keys.ts'
import { Lines } from '../lines.tsx'
import { fit, type Line, say } from '../text.ts'
import { useScroll } from '../use-scroll.ts'
import { dispatch } from '../use-shell.ts'

/** Lists every key and what it does. */
const renderHelp = (width: number): Line[] => [
  ...Object.values(KEYS).map(
    ({ keys, means, where }): Line => [
      { text: fit(keys.join(', '), 18), style: 'accent' },
      { text: fit(`${means} (${where})`, Math.max(1, width - 18)), style: 'plain' },
    ],
  ),
]

/** The help, over any view. Any key but those that scroll or leave closes it. */
export function HelpView({
  width,
  height,
  onClose,
}: {
  width: number
  height: number
  onClose(): void
}) {
  const lines = renderHelp(width)
  const room = height - 1
  const { top, handle } = useScroll(lines.length, room)
  useInput((input, key) => {
    let isScrolled = false
    dispatch(input, key, action => {
      isScrolled = handle(action)
    })
    if (!isScrolled) onClose()
  })
  const last = Math.min(lines.length, top + room)
  const shown = `${top + 1} to ${last} of ${lines.length} · ↑ ↓ scroll`
  const heading = lines.length > room ? `Keys ${shown} · other keys close` : 'Keys'
  return (
    <Lines height={height} lines={[say(fit(heading, width), 'bold'), ...lines.slice(top, last)]} />
  )
}
