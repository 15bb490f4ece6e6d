import { Box, Text } from 'ink'
import { memo } from 'react'
import type { Line, Style } from './text.ts'

/** How a style looks in sixteen colours, on a light or a dark screen. */
const LOOKS: Record<
  Style,
  { color?: string; bold?: boolean; dimColor?: boolean; inverse?: boolean }
> = {
  plain: {},
  dim: { dimColor: true },
  bold: { bold: true },
  good: { color: 'green' },
  bad: { color: 'red', bold: true },
  warn: { color: 'yellow' },
  accent: { color: 'cyan' },
  selected: { inverse: true },
}

const getLook = (style: Style) => {
  const { color, ...look } = LOOKS[style]
  return color === undefined || process.env.NO_COLOR ? look : { ...look, color }
}

const One = memo(({ line }: { line: Line }) => (
  <Text wrap="truncate">
    {line.length === 0
      ? ' '
      : line.map(({ text, style }, index) => (
          <Text key={index} {...getLook(style)}>
            {text === '' ? ' ' : text}
          </Text>
        ))}
  </Text>
))

/** Shows lines, exactly so many: what is missing is empty, what is too much is left out. */
export const Lines = ({ lines, height }: { lines: Line[]; height: number }) => (
  <Box flexDirection="column" height={height} overflow="hidden">
    {lines.slice(0, height).map((line, index) => (
      <One key={index} line={line} />
    ))}
  </Box>
)
