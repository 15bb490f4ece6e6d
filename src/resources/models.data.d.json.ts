/** The path of the data in the program, not the data. */
declare const path: string
export default path
