import './style/tokens.css';
import './style/base.css';
import './theme';
import { render } from 'preact';
import { App } from './app';
import { writeOutEverywhere } from './harmless';

writeOutEverywhere();
render(<App />, document.body);
