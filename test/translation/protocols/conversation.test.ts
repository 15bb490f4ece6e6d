import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { Block, Message } from '../../../src/language/message.ts'
import {
  type ConversationMessage,
  toConversation,
} from '../../../src/translation/protocols/conversation.ts'

const text = (said: string): Block => ({ type: 'text', text: said })
const user = (...said: string[]): Message => ({ role: 'user', blocks: said.map(text) })
const assistant = (...blocks: Block[]): Message => ({ role: 'assistant', blocks })
const call = (id: string, name = 'f'): Block => ({ type: 'tool-call', id, name, input: '{}' })
const tool = (tool_call_id: string, said: string): Message => ({
  role: 'tool',
  tool_call_id,
  blocks: [text(said)],
})

/** Returns a message as one line: its role, and each block by its text or id. */
const line = ({ role, blocks }: ConversationMessage) =>
  `${role}: ${blocks.map(summarize).join(' | ')}`
const summarize = (block: ConversationMessage['blocks'][number]) => {
  if (block.type === 'tool-result') return `=${block.name}#${block.id}`
  if (block.type === 'tool-call') return `#${block.id}`
  return 'text' in block ? block.text : block.type
}
const lines = (...turns: Message[]) => toConversation(turns).messages.map(line)

describe('sides', () => {
  test('trap 5: separates instructions wherever they stand, in order and unchanged', () => {
    const marked: Block = { type: 'text', text: 'Be kind.', cache_control: { type: 'ephemeral' } }
    const { system, messages } = toConversation([
      { role: 'system', blocks: [marked] },
      user('Hi'),
      { role: 'developer', blocks: [text('Be brief.')] },
      user('Go on'),
    ])
    expect(system).toEqual([marked, text('Be brief.')])
    expect(messages.map(line)).toEqual(['user: Hi | Go on'])
  })

  test('trap 10: merges consecutive messages of one side', () => {
    expect(lines(user('a'), user('b'), assistant(text('c')), assistant(text('d')))).toEqual([
      'user: a | b',
      'assistant: c | d',
    ])
  })

  test('trap 7: leaves out empty texts, and messages with nothing else', () => {
    expect(lines(user('a', ' ', ''), assistant(text('')), user('b'))).toEqual(['user: a | b'])
  })

  test('trap 9: leaves out a message with nothing but reasoning', () => {
    expect(
      lines(user('a'), assistant({ type: 'reasoning', text: 'hm', details: null }), user('b')),
    ).toEqual(['user: a | b'])
  })

  test('does not change the messages that it is given', () => {
    const turns = [user('a'), user('b'), assistant(call('1')), tool('1', 'x'), tool('2', 'y')]
    const before = structuredClone(turns)
    toConversation(turns)
    toConversation(turns)
    expect(turns).toEqual(before)
  })
})

describe('instructions that come later', () => {
  const system = (...said: string[]): Message => ({ role: 'system', blocks: said.map(text) })
  const turnsOf = (messages: ConversationMessage[]) =>
    messages.flatMap(message => {
      const { blocks, extra } = message.instructions ?? {}
      const said = blocks && `system: ${blocks.map(summarize).join(' | ')}`
      return [line(message), ...(said ? [said] : []), ...(extra?.effort ? ['effort'] : [])]
    })
  const placed = (...turns: Message[]) => turnsOf(toConversation(turns, 'apart').messages)

  test('stand apart after what the user says, for models that take them', () => {
    expect(placed(user('a'), system('b'), assistant(text('c')), user('d'))).toEqual([
      ...['user: a', 'system: b', 'assistant: c', 'user: d'],
    ])
    // Before the user goes on, and before the results of tools.
    expect(placed(user('a'), assistant(text('b')), system('c', 'd'), user('e'))).toEqual([
      ...['user: a', 'assistant: b', 'user: e', 'system: c | d'],
    ])
    const turns = [user('a'), assistant(call('1')), system('b'), tool('1', 'c'), system('d')]
    expect(placed(...turns)).toEqual([
      ...['user: a', 'assistant: #1', 'user: =f#1', 'system: b | d'],
    ])
    const effort: Message = { role: 'system', blocks: [], extra: { effort: 'low' } }
    expect(placed(user('a'), effort)).toEqual(['user: a', 'system: ', 'effort'])
  })

  test('are said by the user where a system message may not stand', () => {
    const said = 'user: <system-reminder>\nb\n</system-reminder>'
    expect(placed(user('a'), assistant(text('c')), system('b'))).toEqual([
      ...['user: a', 'assistant: c', said],
    ])
    expect(placed(user('a'), assistant(text('c')), user(' '), system('b'))).toEqual([
      ...['user: a', 'assistant: c', said],
    ])
  })

  test('are said by the user where they stand, for other models', () => {
    const turns = [system('0'), user('a'), system('b'), assistant(text('c')), user('d')]
    const { system: first, messages } = toConversation(turns, 'said')
    expect(first).toEqual([text('0')])
    expect(messages.map(line)).toEqual([
      'user: a | <system-reminder>\nb\n</system-reminder>',
      ...['assistant: c', 'user: d'],
    ])
    const marked = '<system-reminder>b</system-reminder>'
    expect(toConversation([user('a'), system(marked)], 'said').messages.map(line)).toEqual([
      `user: a | ${marked}`,
    ])
  })

  test.each(['first', 'said', 'apart'] as const)(
    'take work that grows with their number: %s',
    later => {
      const workOf = (many: number) =>
        countCopied(() => {
          const turns = Array.from({ length: many }, (_, i) => system(`${i}`))
          toConversation([user('a'), ...turns, assistant(text('b')), ...turns, user('c')], later)
        })
      expect(workOf(4_000)).toBeLessThan(5 * workOf(1_000))
    },
  )

  /** Counts the items of lists that are read one after the other, as spreading a list does. */
  function countCopied(work: () => void): number {
    const list = Array.prototype[Symbol.iterator]
    let items = 0
    Array.prototype[Symbol.iterator] = function (this: unknown[]) {
      items += this.length
      return list.call(this)
    } as typeof list
    try {
      work()
    } finally {
      Array.prototype[Symbol.iterator] = list
    }
    return items
  }

  test('are all there, in order, and where Anthropic takes them', () => {
    const turn = fc.oneof(
      fc.constantFrom('user', 'assistant', 'call', 'tool', 'system', 'developer', 'empty'),
    )
    fc.assert(
      fc.property(fc.array(turn, { maxLength: 12 }), kinds => {
        const turns = kinds.map((kind, i): Message => {
          if (kind === 'assistant') return assistant(text(`a${i}`))
          if (kind === 'call') return assistant(call(`${i}`))
          if (kind === 'tool') return tool(`${i - 1}`, `t${i}`)
          if (kind === 'empty') return user('')
          return { role: kind as 'user' | 'system', blocks: [text(`<${kind[0]}${i}>`)] }
        })
        const { system: first, messages } = toConversation(turns, 'apart')
        const roles = turnsOf(messages).map(said => said.split(':')[0])
        for (const [i, role] of roles.entries())
          if (role === 'system') {
            expect(roles[i - 1]).toBe('user')
            expect([undefined, 'assistant']).toContain(roles[i + 1])
          }
        const all = `${first.map(summarize).join()}${turnsOf(messages).join()}`
        const told = (all.match(/<[sd]\d+>/g) ?? []).join()
        const given = kinds.flatMap((kind, i) => (/^[sd]/.test(kind) ? `<${kind[0]}${i}>` : []))
        expect(told).toBe(given.join())
      }),
      { numRuns: 300 },
    )
  })
})

describe('tools', () => {
  test('trap 1: parallel results come first in one message, in call order, with names', () => {
    expect(
      lines(
        user('a'),
        assistant(call('1', 'f'), call('2', 'g')),
        tool('2', 'y'),
        tool('1', 'x'),
        user('b'),
      ),
    ).toEqual(['user: a', 'assistant: #1 | #2', 'user: =f#1 | =g#2 | b'])
  })

  test('trap 2: a call without a result gets one that says so', () => {
    const { messages } = toConversation([
      user('a'),
      assistant(call('1'), call('2')),
      tool('1', 'x'),
    ])
    expect(messages.map(line)).toEqual(['user: a', 'assistant: #1 | #2', 'user: =f#1 | =f#2'])
    expect(messages[2]?.blocks[1]).toMatchObject({
      is_error: true,
      blocks: [text('The tool gave no result.')],
    })
  })

  test('trap 2: a call at the end, or before a message of the model, gets a result too', () => {
    expect(lines(user('a'), assistant(call('1')))).toEqual([
      'user: a',
      'assistant: #1',
      'user: =f#1',
    ])
    expect(lines(user('a'), assistant(call('1')), user('b'), assistant(text('c')))).toEqual([
      'user: a',
      'assistant: #1',
      'user: =f#1 | b',
      'assistant: c',
    ])
  })

  test('trap 3: a result without a call becomes text, so that nothing is lost', () => {
    expect(lines(tool('9', 'lost'), user('a'), assistant(text('b')), tool('9', 'again'))).toEqual([
      'user: lost | a',
      'assistant: b',
      'user: again',
    ])
  })

  test('trap 20: two calls of one function each keep their own result', () => {
    const { messages } = toConversation([
      user('a'),
      assistant(call('1', 'f'), call('2', 'f')),
      tool('2', 'two'),
      tool('1', 'one'),
    ])
    expect(
      messages[2]?.blocks.map(block =>
        block.type === 'tool-result' ? [block.id, block.blocks] : null,
      ),
    ).toEqual([
      ['1', [text('one')]],
      ['2', [text('two')]],
    ])
  })

  test('takes linear time for many calls and results', () => {
    const ids = Array.from({ length: 200 }, (_, i) => `c${i}`)
    let looks = 0
    const get = (block: Block, name: string | symbol) => {
      looks++
      return Reflect.get(block, name)
    }
    const watched = (one: Block): Block => new Proxy(one, { get })
    const calls = ids.map(id => watched(call(id)))
    const results = ids.map(id => tool(id, 'r')).toReversed()
    expect(toConversation([assistant(...calls), ...results]).messages[1]?.blocks).toHaveLength(200)
    // Empty messages are left out, and then the model speaks once.
    expect(toConversation(calls.flatMap(one => [assistant(one), user('')])).messages).toHaveLength(
      2,
    )
    expect(looks).toBeLessThan(20 * ids.length)
  })

  test('of two results of one call the first counts', () => {
    expect(
      toConversation([assistant(call('1')), tool('1', 'a'), tool('1', 'b')]).messages[1]?.blocks,
    ).toMatchObject([{ blocks: [text('a')] }])
  })

  test('keeps error flags and cache markers of results', () => {
    const turn: Message = {
      ...tool('1', 'no'),
      is_error: true,
      cache_control: { type: 'ephemeral' },
    }
    expect(
      toConversation([user('a'), assistant(call('1')), turn]).messages[2]?.blocks[0],
    ).toMatchObject({
      is_error: true,
      cache_control: { type: 'ephemeral' },
    })
  })
})
