import { describe, expect, test } from 'bun:test'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { AwsEventStreamScanner } from '../../src/network/part-stream.ts'
import type { Frame } from '../../src/translation/protocols/protocol.ts'
import { awsEvent } from '../support/aws-event-stream.ts'
import { SHARED } from '../support/shared.ts'

/**
 * Answers of real providers, which are not kept in this repository. `GATEWAY_SHARED` is their
 * directory if they are not beside it.
 */
const RECORDINGS = join(SHARED, 'recordings/bedrock-converse')
const found = existsSync(RECORDINGS)

const names = (found ? readdirSync(RECORDINGS) : [])
  .filter(name => name.endsWith('.chunks.txt'))
  .sort()

/** A recorded answer: each line is `{"EVENT": PAYLOAD}`. */
const framesOf = (name: string): Frame[] =>
  readFileSync(join(RECORDINGS, name), 'utf8')
    .split('\n')
    .filter(line => line.trim() !== '')
    .map(line => {
      const [[event = '', payload] = []] = Object.entries(
        JSON.parse(line) as Record<string, unknown>,
      )
      return { event, data: JSON.stringify(payload) }
    })

const encoded = (frames: Frame[]) =>
  Buffer.concat(frames.map(({ event, data }) => awsEvent(event ?? '', data)))

function scan(...pieces: Uint8Array[]): Frame[] {
  const scanner = new AwsEventStreamScanner()
  const frames = pieces.flatMap(piece => scanner.feed(piece))
  return [...frames, ...scanner.end()]
}

/** Large answers are split at every seventh byte: 7 divides neither a prelude nor a checksum. */
const strideFor = (bytes: Uint8Array) => (bytes.length > 3_000 ? 7 : 1)

describe.skipIf(!found)(
  'bedrock-converse recordings (from GATEWAY_SHARED) as an event stream',
  () => {
    test('exist', () => {
      expect(names.length).toBeGreaterThan(5)
    })

    test.each(names)('%s gives the same frames wherever it is split', name => {
      const frames = framesOf(name)
      const bytes = encoded(frames)
      const wrong: number[] = []
      for (let at = 0; at <= bytes.length; at += strideFor(bytes))
        if (!Bun.deepEquals(scan(bytes.subarray(0, at), bytes.subarray(at)), frames)) wrong.push(at)
      expect(frames.length).toBeGreaterThan(2)
      expect(wrong).toEqual([])
    })

    test.each(names)('%s gives the same frames byte by byte', name => {
      const frames = framesOf(name)
      const bytes = encoded(frames)
      expect(scan(...Array.from(bytes, (_, i) => bytes.subarray(i, i + 1)))).toEqual(frames)
    })
  },
)
