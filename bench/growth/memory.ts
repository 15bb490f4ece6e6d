import { heapStats } from 'bun:jsc'
import { openGateway } from '../../src/app/gateway.ts'

/**
 * Measures what keys hold in memory, in bytes per key, in a process of its own: the heap before and
 * after the memory forgets them.
 */
export async function measureKeyMemory(data: string): Promise<void> {
  const child = Bun.spawn([process.execPath, import.meta.path, data], { stdout: 'inherit' })
  if ((await child.exited) !== 0) throw new Error('the memory of a key was not measured')
}

if (import.meta.main) {
  const gateway = await openGateway({ data: process.argv[2] ?? '' })
  const { keys, assignments } = gateway.memory
  const { size } = keys
  const full = await measureHeap()
  assignments.replaceAll([])
  const unassigned = await measureHeap()
  keys.replaceAll([])
  const empty = await measureHeap()
  const perKey = (bytes: number) => `${(bytes / size).toFixed(0)} bytes`
  const parts = `${perKey(full - unassigned)} its assignment, ${perKey(unassigned - empty)} itself`
  process.stdout.write(`memory of a key: ${perKey(full - empty)} (${parts}), ${size} keys\n`)
  await gateway.close()
}

// What objects hold outside of the heap, such as bytes and texts, is part of its size. What is still
// on the stack is not collected, so there are several turns.
async function measureHeap(): Promise<number> {
  for (let n = 0; n < 5; n++) {
    await Bun.sleep(50)
    Bun.gc(true)
  }
  return heapStats().heapSize
}
