import type { ServerToolSample } from '../server-tool.ts'

/** A sample of every tool, by its name. */
export const SAMPLES: Record<string, ServerToolSample> = {
  apply_patch: {
    parameters: { engine: 'auto' },
    options: { isNative: false },
    doors: ['responses'],
    isOfClient: true,
    name: 'apply_patch',
    input: { type: 'delete_file', path: 'a.txt' },
    output: '',
    item: {},
    wrongInput: {},
  },
  datetime: {
    parameters: { timezone: 'Europe/Berlin' },
    options: { timezone: 'Europe/Berlin' },
    name: 'datetime',
    input: { timezone: 'Asia/Tokyo' },
    output: '2026-03-04T14:06:07+09:00',
    item: { datetime: '2026-03-04T14:06:07+09:00', timezone: 'Asia/Tokyo' },
    wrongInput: { timezone: 'Mars/Olympus' },
  },
  search_models: {
    parameters: { max_results: 3 },
    options: { max_results: 3 },
    name: 'search_models',
    input: { query: 'gemini' },
    output: 'acme/gemini',
    item: { query: 'gemini' },
    wrongInput: { query: 7 },
  },
  tool_search: {
    parameters: { max_results: 3 },
    options: { max_results: 3 },
    functions: [
      { name: 'get_weather', description: 'Tells the weather of a city', defer_loading: true },
      { name: 'get_time', description: 'Tells the time', defer_loading: true },
    ],
    name: 'tool_search',
    input: { query: 'weather' },
    output: 'get_weather',
    item: { query: 'weather' },
    wrongInput: {},
  },
}
