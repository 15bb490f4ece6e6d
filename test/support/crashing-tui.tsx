import { printFailure } from '../../src/cli/output.ts'
import { startTui } from '../../src/cli/tui/start.tsx'
import { buildCallEntries, FakeSource } from './tui.tsx'

/*
 * The terminal UI with a fault: `render` breaks a drawing, `rejection` and `exception` break outside
 * of one, once a call was shown.
 */
const source = new FakeSource()
const fault = process.argv[2]
const crash = () => {
  throw new Error('a planted fault')
}
if (fault === 'render') {
  Object.defineProperty(source, 'name', { get: crashLater(2) })
  setInterval(() => source.tell(...buildCallEntries('gen-1')), 50)
}
if (fault === 'rejection') setTimeout(() => void Promise.reject(new Error('a planted fault')), 300)
if (fault === 'exception') setTimeout(crash, 300)

function crashLater(count: number): () => string {
  let left = count
  return () => (left-- > 0 ? '/var/lib/gateway' : crash())
}

try {
  await startTui(source)
} catch (thrown) {
  process.exitCode = printFailure(thrown)
}
process.exit()
