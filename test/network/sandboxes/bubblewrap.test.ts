import { expect, test } from 'bun:test'
import { buildSeccompFilter } from '../../../src/network/sandboxes/bubblewrap/seccomp.ts'
import { describeMissing } from '../../../src/network/sandboxes/bubblewrap.ts'

/** What is missing where the processor is one that no filter of system calls is known for. */
const filter = buildSeccompFilter() === null ? ['without a filter of system calls'] : []

test.each<[Parameters<typeof describeMissing>[0], string[]]>([
  [{ controllers: ['cpu', 'memory', 'pids'] }, []],
  [{ controllers: ['memory'] }, ['without control groups of pids and cpu']],
  ['they are version 1', ['without control groups: they are version 1']],
])('of %j, what the kernel does not hold is %j', (found, missing) => {
  expect(describeMissing(found)).toBe([...filter, ...missing].join(', ') || null)
})
