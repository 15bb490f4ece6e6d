import { expect, test } from 'bun:test'
import { joinReadings } from '../../../src/cli/commands/serve/worker.ts'
import { Counter, Histogram, readValue, renderMetrics } from '../../../src/observability/metrics.ts'

test('what several servers have counted is one text, in which each series has its worker', () => {
  const read = (count: number) => {
    const calls = new Counter({ name: 'calls_total', help: 'Calls' })
    calls.add(count, { provider: 'a' })
    const seconds = new Histogram({ name: 'seconds', help: 'Times' }, [1])
    seconds.open().observe(count)
    return [calls.read(), seconds.read(), readValue('running', 'Running calls', count)]
  }
  // As they come from another process.
  const other = JSON.parse(JSON.stringify(read(3)))
  expect(
    renderMetrics(
      joinReadings(
        new Map([
          [1, read(0.5)],
          [4, other],
          [5, []],
        ]),
      ),
    ),
  ).toBe(
    `# HELP calls_total Calls
# TYPE calls_total counter
calls_total{provider="a",worker="1"} 0.5
calls_total{provider="a",worker="4"} 3
# HELP seconds Times
# TYPE seconds histogram
seconds_bucket{worker="1",le="1"} 1
seconds_bucket{worker="1",le="+Inf"} 1
seconds_sum{worker="1"} 0.5
seconds_count{worker="1"} 1
seconds_bucket{worker="4",le="1"} 0
seconds_bucket{worker="4",le="+Inf"} 1
seconds_sum{worker="4"} 3
seconds_count{worker="4"} 1
# HELP running Running calls
# TYPE running gauge
running{worker="1"} 0.5
running{worker="4"} 3
`,
  )
})
