import { expect, test } from 'bun:test'
import {
  isWebAddress,
  readChoiceIndex,
  toUrlCitation,
  UnreadableEvents,
} from '../../../src/translation/protocols/reader.ts'

test('identifies an alternative by its index, or its position if it has none', () => {
  expect([
    readChoiceIndex(2, 0),
    readChoiceIndex(undefined, 1),
    readChoiceIndex('2', 1),
    readChoiceIndex(127, 0),
  ]).toEqual([2, 1, 1, 127])
  expect([
    readChoiceIndex(-1, 0),
    readChoiceIndex(1.5, 0),
    readChoiceIndex(Number.NaN, 0),
    readChoiceIndex(128, 0),
    readChoiceIndex(null, 128),
  ]).toEqual(Array(5).fill(undefined))
})

test('skips twenty unreadable events, and fails at the next', () => {
  const garbage = new UnreadableEvents()
  for (let i = 0; i < 20; i++) expect(garbage.skip()).toEqual([])
  expect(() => garbage.skip()).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
})

test('a citation has the known fields of a source, and no others', () => {
  const citation = {
    title: null,
    content: 'Hi',
    start_index: 0,
    end_index: undefined,
    license: 'mit',
  }
  expect(toUrlCitation('https://a.example/', citation)).toEqual({
    type: 'url_citation',
    url_citation: { url: 'https://a.example/', content: 'Hi', start_index: 0 },
  })
})

test('only pages have web addresses, not documents or mailboxes', () => {
  expect(
    ['https://a', 'HTTP://a', 'https:a', 'mailto:a@b', 'javascript://a', 'a.pdf', ''].map(
      isWebAddress,
    ),
  ).toEqual([true, true, ...Array(5).fill(false)])
})
