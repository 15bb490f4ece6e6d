import { useInput } from 'ink'
import { KEYS } from '../keys.ts'
import { Lines } from '../lines.tsx'
import { fit, type Line, say } from '../text.ts'
import { useScroll } from '../use-scroll.ts'
import { dispatch } from '../use-shell.ts'

/** Lists every key and what it does. */
const renderHelp = (width: number): Line[] => [
  say('Keys', 'bold'),
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
  const { top, handle } = useScroll(lines.length, height)
  useInput((input, key) => {
    let isScrolled = false
    dispatch(input, key, action => {
      isScrolled = handle(action)
    })
    if (!isScrolled) onClose()
  })
  return <Lines height={height} lines={lines.slice(top, top + height)} />
}
