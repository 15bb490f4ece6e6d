import { Box, Text } from 'ink'
import { memo } from 'react'
import type { Line, Style } from './text.ts'

/**
 * How a style looks in sixteen colours, on a light or a dark screen: what begins and ends it, and
 * its colour, which is left out where none are wanted.
 */
const LOOKS: Record<Style, { begin: number[]; color?: number }> = {
  plain: { begin: [] },
  dim: { begin: [2] },
  bold: { begin: [1] },
  good: { begin: [], color: 32 },
  bad: { begin: [1], color: 31 },
  warn: { begin: [], color: 33 },
  accent: { begin: [], color: 36 },
  selected: { begin: [7] },
}

const ENDS: Record<number, number> = { 1: 22, 2: 22, 7: 27 }
const END_OF_COLOR = 39

function render(text: string, style: Style): string {
  const { begin, color } = LOOKS[style]
  const codes = color === undefined || process.env.NO_COLOR ? begin : [...begin, color]
  if (codes.length === 0) return text
  const ends = codes.map(code => ENDS[code] ?? END_OF_COLOR)
  return `\u001b[${codes.join(';')}m${text}\u001b[${ends.join(';')}m`
}

/** Renders a line with its escapes: one text costs less to draw than a piece for each style. */
const renderLine = (line: Line): string =>
  line.map(({ text, style }) => (text === '' ? '' : render(text, style))).join('') || ' '

const One = memo(({ text }: { text: string }) => <Text wrap="truncate">{text}</Text>)

/** Shows lines, exactly so many: what is missing is empty, what is too much is left out. */
export const Lines = ({ lines, height }: { lines: Line[]; height: number }) => (
  <Box flexDirection="column" height={height} overflow="hidden">
    {lines.slice(0, height).map((line, index) => (
      <One key={index} text={renderLine(line)} />
    ))}
  </Box>
)
