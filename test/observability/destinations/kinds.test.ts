import { describe, expect, test } from 'bun:test'
import { DESTINATION_TYPES } from '../../../src/observability/destinations/kind.ts'
import { findKind, KINDS } from '../../../src/observability/destinations/registry.ts'
import { testDestination } from '../../suites/destination.ts'

describe('the registry', () => {
  test('has one kind for each type, in their order', () => {
    expect(KINDS.map(({ type }) => type)).toEqual([...DESTINATION_TYPES])
    expect(new Set(DESTINATION_TYPES).size).toBe(DESTINATION_TYPES.length)
    for (const type of DESTINATION_TYPES) expect(findKind(type).type).toBe(type)
  })
})

for (const kind of KINDS) testDestination(kind)
