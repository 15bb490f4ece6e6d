import { expect, test } from 'bun:test'
import { choiceAt, Garbage, isWebAddress, urlCitation } from '../../../src/core/protocols/reader.ts'

test('identifies an alternative by its index, or its position if it has none', () => {
  expect([choiceAt(2, 0), choiceAt(undefined, 1), choiceAt('2', 1), choiceAt(127, 0)]).toEqual([
    2, 1, 1, 127,
  ])
  expect([
    choiceAt(-1, 0),
    choiceAt(1.5, 0),
    choiceAt(Number.NaN, 0),
    choiceAt(128, 0),
    choiceAt(null, 128),
  ]).toEqual(Array(5).fill(undefined))
})

test('skips twenty unreadable events, and fails at the next', () => {
  const garbage = new Garbage()
  for (let i = 0; i < 20; i++) expect(garbage.pass()).toEqual([])
  expect(() => garbage.pass()).toThrow(expect.objectContaining({ type: 'provider_unavailable' }))
})

test('a citation has the known fields of a source, and no others', () => {
  const citation = {
    title: null,
    content: 'Hi',
    start_index: 0,
    end_index: undefined,
    license: 'mit',
  }
  expect(urlCitation('https://a.example/', citation)).toEqual({
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
