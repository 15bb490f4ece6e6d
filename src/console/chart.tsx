/** @jsxImportSource preact */
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'

/** A line over time. */
export interface Series {
  label: string
  values: (number | null)[]
}

/** As many colours as lines can be told apart by; they work on light and dark. */
const COLOURS = [
  '#3b82f6',
  '#f97316',
  '#10b981',
  '#a855f7',
  '#ef4444',
  '#14b8a6',
  '#eab308',
  '#ec4899',
]

/** How many lines are drawn: the rest is in the table. */
export const MOST_SERIES = COLOURS.length

/** Draws lines over time. The table beside it says the same in words. */
export function Chart({
  title,
  times,
  series,
  format,
}: {
  title: string
  /** In milliseconds. */
  times: number[]
  series: Series[]
  format: (value: number) => string
}) {
  const place = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = place.current
    if (!element || times.length === 0) return
    const text = getComputedStyle(element).color
    const grid = { stroke: '#8883', width: 1 }
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: 240,
        cursor: { y: false },
        axes: [
          { stroke: text, grid },
          { stroke: text, grid, size: 70, values: (_, ticks) => ticks.map(format) },
        ],
        series: [
          {},
          ...series.map(({ label }, i) => ({
            label,
            stroke: COLOURS[i % COLOURS.length] ?? text,
            width: 2,
            points: { show: times.length < 3 },
            value: (_: uPlot, value: number | null) => (value === null ? '—' : format(value)),
          })),
        ],
      },
      [times.map(time => time / 1000), ...series.map(({ values }) => values)],
      element,
    )
    const observer = new ResizeObserver(() =>
      plot.setSize({ width: element.clientWidth, height: 240 }),
    )
    observer.observe(element)
    return () => {
      observer.disconnect()
      plot.destroy()
    }
  }, [times, series])
  return (
    <div
      ref={place}
      class="chart"
      role="img"
      aria-label={`${title}: the table below has the numbers`}
    />
  )
}
