import { heapStats } from 'bun:jsc'
import { readFileSync } from 'node:fs'
import { plugin } from 'bun'

/** What a program has made since it began: its heap grows only, since nothing is collected. */
export interface HeapGrowth {
  /** Of cells, in whole blocks, and of what they hold outside of the heap, as long texts. */
  bytes: number
  promises: number
}

/*
 * Loaded before the program, which it tells about at each message of its parent. Without a
 * collector (BUN_JSC_useGC=0), every object that was made is still there to be counted.
 */
process.on('message', () => {
  isCounting = true
  const { heapCapacity, extraMemorySize, objectTypeCounts } = heapStats()
  const bytes = heapCapacity + extraMemorySize
  process.send?.({ bytes, promises: objectTypeCounts.Promise ?? 0 } satisfies HeapGrowth)
})

// What timers do is no call's, and more where calls are slow: none goes off once counting has begun.
let isCounting = false
for (const name of ['setInterval', 'setTimeout'] as const) {
  const start = globalThis[name] as (run: () => void, milliseconds: number) => unknown
  Object.assign(globalThis, {
    [name]: (run: () => void, milliseconds: number) =>
      start(() => isCounting || run(), milliseconds),
  })
}

const WRITE = '(file, text, tell) => write(file, text, tell)'
const WRITE_NEXT_TURN =
  '(file, text, tell) => void setImmediate(() => tell(null, writeSync(file, text)))'

// The log is written in the next turn of the loop. On a busy machine a thread that writes is late:
// calls wait for the blocks of those before, and make more.
plugin({
  name: 'log-without-thread',
  setup(build) {
    build.onLoad({ filter: /\/src\/store\/log\.ts$/ }, ({ path }) => {
      const source = readFileSync(path, 'utf8')
      if (!source.includes(WRITE)) throw new Error(`${path} writes in another way`)
      const contents = `import { writeSync } from 'node:fs'\n${source.replace(WRITE, WRITE_NEXT_TURN)}`
      return { contents, loader: 'ts' }
    })
  },
})
