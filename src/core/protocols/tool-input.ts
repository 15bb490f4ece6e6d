import { isObject, type Json, parseObject } from '../kernel/json.ts'

/** The arguments that an answer gives: the raw text, big integers and all. A server that sends an object gets it written out. */
export const inputText = (given: unknown): string => (typeof given === 'string' ? given : isObject(given) ? JSON.stringify(given) : '')

/** The arguments of a call of the conversation as JSON, for providers that take a text and refuse an empty one. */
export const inputJson = (input: string): string => (input.trim() === '' ? '{}' : input)

/**
 * The arguments as an object, for providers that take nothing else. What the model wrote and is none, or was cut, goes back under
 * this name, that of Anthropic's documentation: the model shall see what it did.
 */
export const inputObject = (input: string, odd = 'INVALID_JSON'): Json =>
  input.trim() === '' ? {} : (parseObject(input) ?? { [odd]: input })
