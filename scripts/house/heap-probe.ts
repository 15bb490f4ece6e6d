import { heapStats } from 'bun:jsc'

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
  const { heapCapacity, extraMemorySize, objectTypeCounts } = heapStats()
  const bytes = heapCapacity + extraMemorySize
  process.send?.({ bytes, promises: objectTypeCounts.Promise ?? 0 } satisfies HeapGrowth)
})
