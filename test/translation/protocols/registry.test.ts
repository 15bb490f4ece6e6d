import { expect, test } from 'bun:test'
import { protocolNames, protocols } from '../../../src/translation/protocols/registry.ts'
import { SAMPLES } from '../../suites/protocol/samples.ts'
import { testProtocol } from '../../suites/protocol.ts'

for (const [name, protocol] of Object.entries(protocols.text))
  testProtocol('text', name, protocol, SAMPLES.text[name])

for (const [name, protocol] of Object.entries(protocols.embedding))
  testProtocol('embedding', name, protocol, SAMPLES.embedding[name])

for (const [name, protocol] of Object.entries(protocols.rerank))
  testProtocol('rerank', name, protocol, SAMPLES.rerank[name])

for (const [name, protocol] of Object.entries(protocols.image))
  testProtocol('image', name, protocol, SAMPLES.image[name])

for (const [name, protocol] of Object.entries(protocols.speech))
  testProtocol('speech', name, protocol, SAMPLES.speech[name])

for (const [name, protocol] of Object.entries(protocols.transcription))
  testProtocol('transcription', name, protocol, SAMPLES.transcription[name])

for (const [name, protocol] of Object.entries(protocols.video))
  testProtocol('video', name, protocol, SAMPLES.video[name])

test('every kind of work has protocols, and each is named once', () => {
  const names = Object.values(protocols).map(byName => Object.keys(byName))
  expect(names.every(list => list.length > 0)).toBe(true)
  expect(protocolNames.toSorted()).toEqual([...new Set(names.flat())].toSorted())
})
